//! `kumiki doctor`: in words and as JSON.

use crate::common::Home;

#[test]
fn the_machine_is_examined() {
    let home = Home::new();
    let words = home.prints(&["doctor"]);
    let json = home.json(&["doctor", "--json"]);
    let findings = json.as_array().unwrap();
    assert!(findings.len() > 10);
    for finding in findings {
        let say = |name: &str| finding[name].as_str().unwrap().to_owned();
        assert!(words.contains(&format!("{}: ", say("thing"))), "{finding}");
        assert!(words.contains(&format!("\n{}\n", say("part"))), "{finding}");
        assert!(["present", "limited", "absent", "unknown"].contains(&say("state").as_str()));
        assert!(!say("consequence").is_empty(), "what the lack means");
    }
    for thing in ["SMT", "WAITPKG", "MONITORX", "io_uring", "huge pages", "perf", "QEMU"] {
        assert!(words.contains(thing), "{thing}");
    }
    for backend in ["backend user", "backend io_uring", "backend kernel"] {
        let its = findings.iter().find(|finding| finding["thing"] == backend).expect(backend);
        assert_eq!(its["part"], "parasc");
        assert!(its["detail"].as_str().unwrap().contains("automatic choice"), "{its}");
    }
    assert!(!home.path("data").exists(), "it needs no database");
}
