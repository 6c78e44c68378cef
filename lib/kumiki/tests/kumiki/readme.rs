//! The programs that the README and that of the libraries show compile and run in a new crate, as copied.

use crate::new_crate::{PAGES, blocks, document, program, well};

#[test]
fn the_readme_s_programs_run_in_a_new_crate_as_copied() {
    let readme = document("README.md") + &document("lib/README.md");
    assert_eq!(blocks(&readme, "rust").len(), 5, "blocks of Rust");
    let printed = [0, 1, 2, 3, 4].map(|i| well(&mut program(&format!("readme_{i}"))));
    assert_eq!(printed[0], "4999950000\n");
    assert!(printed[3].ends_with(" bytes in all\n"), "{}", printed[3]);
    assert_eq!(printed[4], "");
    for printed in &printed[1..3] {
        // Process 1 is always there, and never all of them.
        let taken = printed.strip_suffix(" of 1000 process ids are taken\n");
        let taken: u32 = taken.expect(printed).parse().unwrap();
        assert!((1..1000).contains(&taken), "{printed}");
    }
}

#[test]
fn the_programs_of_the_pages_run_in_a_new_crate_as_copied() {
    let counts = PAGES.map(|page| blocks(&document(page), "rust").len());
    assert_eq!(counts, [1, 1], "{PAGES:?}");
    // What they name is what they need.
    for (page, feature) in PAGES.iter().zip(["shadow", "spawn"]) {
        let needed = blocks(&document(page), "toml").concat();
        assert!(needed.contains(&format!("features = [\"{feature}\"]")), "{page}: {needed}");
        // Two clicks: the page, then the program.
        assert!(
            document("README.md").contains(&format!("]({page})")),
            "the README leads to {page}"
        );
    }
    assert_eq!(well(&mut program("page_0")), "2666466670000\n");
    assert_eq!(well(&mut program("page_1")), "64\n");
}
