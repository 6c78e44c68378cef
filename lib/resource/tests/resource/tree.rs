//! What other parts have shows up beside an interface's resources.

use kumiki_parasc::{Config, Engine};
use kumiki_resource::{Interface, Listed, Pattern};
use kumiki_shadow::{Builder, Team};

use crate::Flag;

/// What the calling thread has made, since others' tests make things, too.
fn own(interface: &Interface, kind: &str) -> Vec<Listed> {
    let pattern = Pattern::new(&format!("*/{kind}/*")).unwrap();
    let name = std::thread::current().name().unwrap().to_owned();
    interface.tree(&pattern).unwrap().into_iter().filter(|one| one.owner == name).collect()
}

#[test]
fn shadows_teams_engines_and_managers_are_in_the_tree() {
    let interface = Interface::builder().kind::<Flag>().per_core().unwrap();
    let servers = own(&interface, "server");
    assert_eq!(servers.len(), interface.places().len());
    assert!(servers.iter().all(|server| server.about.state == "serving"));

    let mut shadow = Builder::new().share().create().unwrap();
    for _ in 0..5 {
        shadow.both(|| (), || ());
    }
    // The helper follows its owner: the place is where it was at one of both looks.
    let before = shadow.info().unwrap().helper_cpu;
    let seen = own(&interface, "shadow");
    let cpus = [before, shadow.info().unwrap().helper_cpu];
    assert_eq!((seen.len(), seen[0].calls, &*seen[0].about.state), (1, 5, "idle"));
    let is_there = cpus.iter().any(|cpu| seen[0].name.starts_with(&format!("core{cpu}/shadow/")));
    assert!(is_there, "{} of {cpus:?}", seen[0].name);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    shadow.fork(move || _ = wait.recv()).unwrap();
    while own(&interface, "shadow")[0].about.state != "running" {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    shadow.join().unwrap().unwrap();
    drop(shadow);
    assert!(own(&interface, "shadow").is_empty());

    let team: Team = Builder::new().share().create_team(3).unwrap();
    let teams = own(&interface, "team");
    assert_eq!((teams.len(), &*teams[0].about.state), (1, "3 threads"));
    assert_eq!(own(&interface, "shadow").len(), 2);
    drop(team);

    let engine = Engine::new(&Config::default()).unwrap();
    let engines = own(&interface, "engine");
    assert_eq!((engines.len(), &*engines[0].about.state), (1, "idle"));
    assert!(engines[0].name.starts_with("process/engine/") && engines[0].about.bytes > 0);
    // The parts' own: their ids open nothing here.
    let refused = interface.of_id::<Flag>(engines[0].id).unwrap_err();
    assert!(refused.to_string().contains("there is no kind"), "{refused}");
    drop(engine);
    drop(interface);
    let none = Interface::builder().cores([]).per_core().unwrap();
    for kind in ["team", "shadow", "engine", "server"] {
        assert!(own(&none, kind).is_empty(), "{kind}");
    }
}
