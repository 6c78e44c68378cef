//! JSON for people, of what program parts take and give: it says the same as the MessagePack.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};
use crate::wire;

/// A value that a program part takes, from JSON.
///
/// # Errors
/// [`Error::Value`]: it nests too deep.
pub fn from_json(value: &Value) -> Result<Bytes> {
    wire::named(value).map_err(|error| Error::Value {
        what: "the JSON cannot be written as MessagePack".to_owned(),
        why: error.to_string(),
    })
}

/// A value that a program part has given, as JSON: bytes are an array of numbers, and keys that
/// are no texts are written as such.
///
/// # Errors
/// [`Error::Value`]: it is no MessagePack.
pub fn to_json(bytes: &[u8]) -> Result<Value> {
    wire::read::<Any>(bytes).map(|any| any.0).map_err(|error| Error::Value {
        what: "what a place has given cannot be shown as JSON".to_owned(),
        why: error.to_string(),
    })
}

/// Any value, bytes included, which `serde_json::Value` does not take.
struct Any(Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Any, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Any, E> {
        // JSON has no infinities.
        let text = || Value::String(value.to_string());
        Ok(Any(Number::from_f64(value).map_or_else(text, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Any, E> {
        Ok(Any(value.to_vec().into()))
    }

    fn visit_unit<E>(self) -> Result<Any, E> {
        Ok(Any(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Any, E> {
        Ok(Any(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Any, D::Error> {
        Any::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Any, D::Error> {
        Any::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Any, A::Error> {
        let mut values = Vec::new();
        while let Some(Any(value)) = all.next_element()? {
            values.push(value);
        }
        Ok(Any(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Any, A::Error> {
        let mut values = Map::new();
        while let Some((Any(key), Any(value))) = all.next_entry()? {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string(),
            };
            if values.insert(key, value).is_some() {
                return Err(de::Error::custom("one key twice"));
            }
        }
        Ok(Any(Value::Object(values)))
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_comes_back_and_bytes_are_shown() {
        let value = json!({"a": [1, -2, 1.5, null, true], "b": {"c": "text"}});
        assert_eq!(to_json(&from_json(&value).unwrap()).unwrap(), value);

        #[derive(Serialize)]
        struct Output {
            bytes: Bytes,
            outcome: Result<u8, String>,
        }
        let given = Output { bytes: Bytes::from_static(b"\x00\xff"), outcome: Ok(3) };
        let shown = to_json(&wire::named(&given).unwrap()).unwrap();
        assert_eq!(shown, json!({"bytes": [0, 255], "outcome": {"Ok": 3}}));
        to_json(b"\xc1").unwrap_err();
    }
}
