//! Names of a place as they come and go.

use anyhow::Result;
use kumiki_places::{Nats, News};
use serde_json::{Value, json};

use crate::place::asking;
use crate::{Verdict, output};

/// Prints news of a place, `count` lines if it is given; negative if the place ends.
pub(super) fn run(
    server: Option<&Nats>,
    place: &str,
    pattern: &str,
    count: Option<u64>,
    json: bool,
) -> Result<Verdict> {
    asking(server, async |client| {
        let mut watch = client.watch(place, pattern).await?;
        let mut printed = 0;
        while count.is_none_or(|most| printed < most) {
            let news = watch.next().await;
            match json {
                true => output::json(&described(place, &news))?,
                false => output::line(news_line(place, &news))?,
            }
            printed += 1;
            if news == News::Gone {
                return Ok(Verdict::Negative);
            }
        }
        Ok(Verdict::Fine)
    })
}

fn news_line(place: &str, news: &News) -> String {
    match news {
        News::Here { life } => format!("  {place} is here, life {life:016x}"),
        News::Changed(change) => {
            format!("{} {}", if change.created { '+' } else { '-' }, change.name)
        }
        News::Missed => format!("  some changes of {place} were lost on their way"),
        News::Gone => format!("  {place} is gone, and its resources with it"),
        News::Unheard => format!("  nothing is heard of {place}: it may be there"),
    }
}

fn described(place: &str, news: &News) -> Value {
    match news {
        News::Here { life } => json!({ "news": "here", "place": place, "life": life }),
        News::Changed(change) => {
            let what = if change.created { "created" } else { "destroyed" };
            json!({ "news": what, "place": place, "name": change.name, "id": change.id })
        }
        News::Missed => json!({ "news": "missed", "place": place }),
        News::Gone => json!({ "news": "gone", "place": place }),
        News::Unheard => json!({ "news": "unheard", "place": place }),
    }
}
