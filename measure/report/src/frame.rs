//! What every page has around its sections: head, contents, style, script, footer.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Lets the page load nothing, not even if a text in it tried to.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

/// A section with its heading, and what the contents call it.
pub(crate) struct Section {
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) title: String,
    pub(crate) body: Markup,
    /// True if it has room beside another of its kind.
    pub(crate) narrow: bool,
}

fn section(s: &Section) -> Markup {
    html! { section id=(s.id) { h2 { (s.title) } (s.body) } }
}

/// A page of its own with sections: anchor, heading and body; and how to read its figures.
pub(crate) fn frame(
    title: &str,
    head: &Markup,
    sections: impl Iterator<Item = (&'static str, &'static str, Markup)>,
    notes: Option<&str>,
) -> String {
    let section = |(id, title, body): (&str, &str, Markup)| {
        let [id, short, title] = [id, title, title].map(str::to_owned);
        Section { id, short, title, body, narrow: false }
    };
    whole(title, head, &sections.map(section).collect::<Vec<_>>(), notes)
}

/// The whole document of these sections.
pub(crate) fn whole(
    title: &str,
    head: &Markup,
    sections: &[Section],
    notes: Option<&str>,
) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "Kumiki " (crate::version()) };
                title { (title) }
                style { (PreEscaped(include_str!("page/page.css"))) }
            }
            body {
                nav.contents aria-label="Contents" {
                    ol { @for s in sections { li { a href={ "#" (s.id) } { (s.short) } } } }
                    button #theme type="button" hidden { "theme: auto" }
                }
                main {
                    (head)
                    @for run in sections.chunk_by(|a, b| a.narrow && b.narrow) {
                        @if run.len() > 1 { div.beside { @for s in run { (section(s)) } } }
                        @else { @for s in run { (section(s)) } }
                    }
                    (footer(notes))
                }
                script { (PreEscaped(include_str!("page/page.js"))) }
            }
        }
    };
    page.into_string()
}

fn footer(notes: Option<&str>) -> Markup {
    html! {
        footer {
            @if let Some(notes) = notes { p { (notes) } }
            p { "Made by Kumiki " (crate::version()) "." }
        }
    }
}
