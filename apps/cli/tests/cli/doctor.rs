//! `kumiki doctor`: in words and as JSON.

use crate::common::Home;

/// The words without their line breaks.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_machine_is_examined() {
    let home = Home::new();
    let words = home.prints(&["doctor"]);
    assert!(words.lines().all(|line| line.chars().count() <= 80), "{words}");
    let words = unwrapped(&words);
    let json = home.json(&["doctor", "--json"]);
    let findings = json.as_array().unwrap();
    assert!(findings.len() > 10);
    let mut from = 0;
    for finding in findings {
        let say = |name: &str| finding[name].as_str().unwrap().to_owned();
        assert!(["present", "limited", "absent", "unknown"].contains(&say("state").as_str()));
        assert!(!say("consequence").is_empty(), "what the lack means");
        // Each once and in the same order.
        let line = format!("{} [{}]", say("thing"), say("part"));
        let at =
            words[from..].find(&line).unwrap_or_else(|| panic!("{line:?} after {from}: {words}"));
        from += at + line.len();
        let lacks = say("state") != "present";
        for told in ["consequence", "costs", "remedy"] {
            let Some(text) = finding[told].as_str() else { continue };
            let here = words[from..].contains(&unwrapped(text));
            assert!(here || !lacks, "{told} of {line} is not told: {words}");
        }
    }
    for thing in ["SMT", "UMWAIT", "MWAITX", "huge pages", "governor"] {
        assert!(words.contains(thing), "{thing}");
    }
    // The kernel's is spoken of where its module is loaded.
    let its = findings.iter().find(|finding| finding["thing"] == "backend user").expect("it is");
    assert_eq!(its["part"], "parasc");
    assert!(its["detail"].as_str().unwrap().contains("automatic choice"), "{its}");
    assert!(!home.path("data").exists(), "it needs no database");
}

#[test]
fn nodes_and_the_lab_are_spoken_of() {
    let home = Home::new();
    let said = home.prints(&["doctor"]);
    for thing in [
        "module osnode [node]",
        "watchman [node]",
        "kernel headers [node]",
        "QEMU [lab]",
        "KVM [lab]",
    ] {
        assert!(said.contains(thing), "{thing} in {said}");
    }
}
