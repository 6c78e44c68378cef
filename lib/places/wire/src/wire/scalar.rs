//! Values of one word: how program parts take and give a number, a truth or nothing on a line, without bytes.
//!
//! A scalar says what it is, so that the other side reads it as it would the same value in MessagePack: a number
//! that its type has room for, an option of one, or a structure of one field without a name. Which types have
//! one the compiler sees: nothing of this is left where a part's type is an integer but the store of a word.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeOwned, Error as _, Unexpected, Visitor};
use serde::{Deserializer, Serialize, Serializer, ser};

use crate::wire;

/// Types of a scalar's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    Nothing = 1,
    Truth,
    Signed,
    Unsigned,
    Float,
    ShortFloat,
}

impl Form {
    /// The form of this number; none of 0, which no scalar has.
    #[inline(always)]
    pub fn of(number: u8) -> Option<Form> {
        Some(match number {
            1 => Form::Nothing,
            2 => Form::Truth,
            3 => Form::Signed,
            4 => Form::Unsigned,
            5 => Form::Float,
            6 => Form::ShortFloat,
            _ => return None,
        })
    }
}

/// A value of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    pub form: Form,
    pub word: u64,
}

impl Scalar {
    /// The scalar that a value is, if it is one.
    #[inline(always)]
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Option<Scalar> {
        value.serialize(ScalarSerializer).ok()
    }

    /// Its value as MessagePack.
    pub fn packed(self) -> Bytes {
        let packed = match self.form {
            Form::Nothing => wire::named(&()),
            Form::Truth => wire::named(&(self.word == 1)),
            Form::Signed => wire::named(&(self.word as i64)),
            Form::Unsigned => wire::named(&self.word),
            Form::Float => wire::named(&f64::from_bits(self.word)),
            Form::ShortFloat => wire::named(&f32::from_bits(self.word as u32)),
        };
        // A word can be written; nothing is no value of any part.
        packed.unwrap_or_default()
    }

    /// The value of this type.
    ///
    /// # Errors
    /// Why it is none of it.
    #[inline(always)]
    pub fn read<T: DeserializeOwned>(self) -> Result<T, NoValue> {
        T::deserialize(self)
    }

    /// Its value, for messages to people.
    fn unexpected(self) -> Unexpected<'static> {
        match self.form {
            Form::Nothing => Unexpected::Unit,
            Form::Truth => Unexpected::Bool(self.word != 0),
            Form::Signed => Unexpected::Signed(self.word as i64),
            Form::Unsigned => Unexpected::Unsigned(self.word),
            Form::Float => Unexpected::Float(f64::from_bits(self.word)),
            Form::ShortFloat => Unexpected::Float(f32::from_bits(self.word as u32).into()),
        }
    }
}

/// Reason for which a scalar is no value of a type.
#[derive(Debug)]
pub struct NoValue(String);

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoValue {}

impl serde::de::Error for NoValue {
    #[cold]
    fn custom<T: fmt::Display>(text: T) -> NoValue {
        NoValue(text.to_string())
    }
}

/// One method for each type that is read as values of its own form are written, without a look at the others.
macro_rules! typed {
    ($($method:ident = $form:ident, $visit:ident, $word:ident => $value:expr;)+) => {
        $(
            #[inline(always)]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
                let Scalar { form, word: $word } = self;
                if form == Form::$form { visitor.$visit($value) } else { self.other(visitor) }
            }
        )+
    };
}

impl Scalar {
    /// Reads one of a form that its reader does not write.
    #[cold]
    #[inline(never)]
    fn other<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.deserialize_any(visitor)
    }
}

impl<'de> Deserializer<'de> for Scalar {
    type Error = NoValue;

    typed! {
        deserialize_i8 = Signed, visit_i64, word => word as i64;
        deserialize_i16 = Signed, visit_i64, word => word as i64;
        deserialize_i32 = Signed, visit_i64, word => word as i64;
        deserialize_i64 = Signed, visit_i64, word => word as i64;
        deserialize_u8 = Unsigned, visit_u64, word => word;
        deserialize_u16 = Unsigned, visit_u64, word => word;
        deserialize_u32 = Unsigned, visit_u64, word => word;
        deserialize_u64 = Unsigned, visit_u64, word => word;
        deserialize_f64 = Float, visit_f64, word => f64::from_bits(word);
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        match self.form {
            Form::Signed => visitor.visit_i64(self.word as i64),
            Form::Unsigned => visitor.visit_u64(self.word),
            Form::Nothing => visitor.visit_unit(),
            Form::Truth if self.word < 2 => visitor.visit_bool(self.word == 1),
            Form::Float => visitor.visit_f64(f64::from_bits(self.word)),
            Form::ShortFloat if self.word <= u32::MAX.into() => {
                visitor.visit_f32(f32::from_bits(self.word as u32))
            }
            Form::Truth | Form::ShortFloat => {
                Err(NoValue::invalid_value(Unexpected::Unsigned(self.word), &"what its form has"))
            }
        }
    }

    #[inline(always)]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        if self.form == Form::Nothing { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline(always)]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NoValue> {
        Err(NoValue::invalid_type(self.unexpected(), &name))
    }

    /// Answers as MessagePack does, and as it was written.
    fn is_human_readable(&self) -> bool {
        false
    }

    serde::forward_to_deserialize_any! {
        bool f32 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Gives the scalar that a value is.
#[derive(Clone, Copy)]
struct ScalarSerializer;

/// Error for a value that is no scalar, and goes as bytes.
#[derive(Debug)]
struct NoScalar;

impl fmt::Display for NoScalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is more than one word")
    }
}

impl std::error::Error for NoScalar {}

impl ser::Error for NoScalar {
    #[inline(always)]
    fn custom<T: fmt::Display>(_: T) -> NoScalar {
        NoScalar
    }
}

type ScalarResult = Result<Scalar, NoScalar>;
type Several = ser::Impossible<Scalar, NoScalar>;

/// One method for each type whose values are a word of this form.
macro_rules! words {
    ($($method:ident($type:ty) = $form:ident, $value:ident => $word:expr;)+) => {
        $(
            #[inline(always)]
            fn $method(self, $value: $type) -> ScalarResult {
                Ok(Scalar { form: Form::$form, word: $word })
            }
        )+
    };
}

/// One method for each shape that has more than a word.
macro_rules! none {
    ($($method:ident($($type:ty),*) -> $given:ty;)+) => {
        $(
            #[inline(always)]
            fn $method(self, $(_: $type),*) -> Result<$given, NoScalar> {
                Err(NoScalar)
            }
        )+
    };
}

impl Serializer for ScalarSerializer {
    type Ok = Scalar;
    type Error = NoScalar;
    type SerializeSeq = Several;
    type SerializeTuple = Several;
    type SerializeTupleStruct = Several;
    type SerializeTupleVariant = Several;
    type SerializeMap = Several;
    type SerializeStruct = Several;
    type SerializeStructVariant = Several;

    words! {
        serialize_bool(bool) = Truth, value => value.into();
        serialize_i8(i8) = Signed, value => i64::from(value) as u64;
        serialize_i16(i16) = Signed, value => i64::from(value) as u64;
        serialize_i32(i32) = Signed, value => i64::from(value) as u64;
        serialize_i64(i64) = Signed, value => value as u64;
        serialize_u8(u8) = Unsigned, value => value.into();
        serialize_u16(u16) = Unsigned, value => value.into();
        serialize_u32(u32) = Unsigned, value => value.into();
        serialize_u64(u64) = Unsigned, value => value;
        serialize_f32(f32) = ShortFloat, value => value.to_bits().into();
        serialize_f64(f64) = Float, value => value.to_bits();
    }

    #[inline(always)]
    fn serialize_unit(self) -> ScalarResult {
        Ok(Scalar { form: Form::Nothing, word: 0 })
    }

    #[inline(always)]
    fn serialize_none(self) -> ScalarResult {
        self.serialize_unit()
    }

    #[inline(always)]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> ScalarResult {
        value.serialize(self)
    }

    #[inline(always)]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> ScalarResult {
        value.serialize(self)
    }

    #[inline(always)]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> ScalarResult {
        Err(NoScalar)
    }

    none! {
        serialize_char(char) -> Scalar;
        serialize_str(&str) -> Scalar;
        serialize_bytes(&[u8]) -> Scalar;
        serialize_unit_struct(&'static str) -> Scalar;
        serialize_unit_variant(&'static str, u32, &'static str) -> Scalar;
        serialize_seq(Option<usize>) -> Several;
        serialize_tuple(usize) -> Several;
        serialize_tuple_struct(&'static str, usize) -> Several;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Several;
        serialize_map(Option<usize>) -> Several;
        serialize_struct(&'static str, usize) -> Several;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Several;
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> ScalarResult {
        Err(NoScalar)
    }

    /// Answers as MessagePack does.
    fn is_human_readable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Metres(f64);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Empty;

    /// A word for people, a number for machines.
    #[derive(Debug, PartialEq)]
    struct Day(u8);

    impl Serialize for Day {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match to.is_human_readable() {
                true => to.serialize_str("a day"),
                false => to.serialize_u8(self.0),
            }
        }
    }

    impl<'de> Deserialize<'de> for Day {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Day, D::Error> {
            match from.is_human_readable() {
                true => String::deserialize(from).map(|_| Day(0)),
                false => u8::deserialize(from).map(Day),
            }
        }
    }

    /// Reads a value from its scalar as from MessagePack, as its own type and as others.
    fn both<T: Serialize, U: DeserializeOwned + PartialEq + fmt::Debug>(value: T) -> Option<U> {
        let scalar = Scalar::of(&value).expect("one word");
        let packed = wire::named(&value).unwrap();
        let read = scalar.read::<U>().ok();
        assert_eq!(read, wire::read::<U>(&packed).ok(), "{scalar:?}");
        assert_eq!(read, wire::read::<U>(&scalar.packed()).ok(), "{scalar:?}");
        read
    }

    #[test]
    fn a_value_of_one_word_is_read_as_from_messagepack() {
        assert_eq!(both::<_, i64>(i64::MIN), Some(i64::MIN));
        assert_eq!(both::<_, u64>(u64::MAX), Some(u64::MAX));
        assert_eq!(both::<_, u8>(255_i32), Some(255));
        assert_eq!(both::<_, u8>(256_u16), None);
        assert_eq!(both::<_, u64>(-1_i8), None);
        assert_eq!(both::<_, i64>(u64::MAX), None);
        assert_eq!(both::<_, bool>(true), Some(true));
        assert_eq!(both::<_, bool>(1_u8), None);
        assert_eq!(both::<_, ()>(()), Some(()));
        assert_eq!(both::<_, f64>(1.5_f32), Some(1.5));
        assert_eq!(both::<_, f64>(7_u32), Some(7.0));
        assert_eq!(both::<_, Metres>(2.5_f64), Some(Metres(2.5)));
        assert_eq!(both::<_, f64>(Metres(2.5)), Some(2.5));
        assert_eq!(both::<_, Option<i64>>(Some(-3_i64)), Some(Some(-3)));
        assert_eq!(both::<_, Option<i64>>(None::<i64>), Some(None));
        assert_eq!(both::<_, Day>(Day(3)), Some(Day(3)));
        assert_eq!(both::<_, String>(7_u8), None);
        assert_eq!(both::<_, Vec<u8>>(()), None);
    }

    #[test]
    fn all_else_goes_as_bytes() {
        let none = |value: Option<Scalar>| assert_eq!(value, None);
        none(Scalar::of("text"));
        none(Scalar::of(&'c'));
        none(Scalar::of(&[1_u8; 3][..]));
        none(Scalar::of(&(1, 2)));
        none(Scalar::of(&Empty));
        none(Scalar::of(&Some("text")));
        none(Scalar::of(&Ok::<u8, u8>(1)));
        none(Scalar::of(&1_u128));
    }

    #[test]
    fn a_word_that_its_form_has_not_is_refused() {
        let read = |form, word| Scalar { form, word }.read::<bool>().unwrap_err().to_string();
        assert!(read(Form::Truth, 2).contains("what its form has"));
        let short = Scalar { form: Form::ShortFloat, word: 1 << 32 };
        short.read::<f32>().unwrap_err();
        assert!(read(Form::Signed, 1).contains("expected a boolean"));
        for number in [0, 7, 255] {
            assert_eq!(Form::of(number), None);
        }
        for number in 1..=6 {
            assert_eq!(Form::of(number).unwrap() as u8, number);
        }
    }
}
