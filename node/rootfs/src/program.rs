//! The program that an image is for, by its configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Folders that a shell searches for programs by default.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Program to run in a root, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name and arguments; none if the image names none.
    pub words: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// `NAME`, `NAME:GROUP`, or their numbers; empty: root.
    pub user: String,
    /// Working folder; empty: the root.
    pub folder: String,
    /// Signal that asks it to end, by name or number; empty: SIGTERM.
    #[serde(default)]
    pub stop_signal: String,
    /// Command that ends with 0 as long as it is well; none if the image names none.
    #[serde(default)]
    pub health: Vec<String>,
    /// Times of that.
    #[serde(default)]
    pub health_times: HealthTimes,
}

/// Times of a HEALTHCHECK; what an image leaves out is as Docker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthTimes {
    /// Time between two of them.
    pub interval: Duration,
    /// Time that one may take.
    pub timeout: Duration,
    /// Time from the start in which failures do not count.
    pub start_period: Duration,
    /// Failures in a row that count.
    pub retries: u32,
}

impl Default for HealthTimes {
    fn default() -> Self {
        HealthTimes {
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(30),
            start_period: Duration::ZERO,
            retries: 3,
        }
    }
}

impl Program {
    /// Folders that are searched for it.
    pub(crate) fn path(&self) -> &str {
        let set = self.environment.iter().find_map(|word| word.strip_prefix("PATH="));
        set.unwrap_or(PATH)
    }
}

/// The part of an image's configuration that is used here, as OCI and Docker write it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    config: Option<Container>,
    #[serde(default)]
    rootfs: Option<RootFs>,
}

/// Layers as they are unpacked, by their digests, the lowest first.
#[derive(Debug, Default, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Container {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
    healthcheck: Option<Healthcheck>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Healthcheck {
    test: Option<Vec<String>>,
    /// Nanoseconds, as all of these; 0 and less stand for what is left out.
    interval: i64,
    timeout: i64,
    start_period: i64,
    retries: i64,
}

impl Healthcheck {
    fn times(&self) -> HealthTimes {
        let given = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let time = |ns, left_out| given(ns).map_or(left_out, Duration::from_nanos);
        let left_out = HealthTimes::default();
        HealthTimes {
            interval: time(self.interval, left_out.interval),
            timeout: time(self.timeout, left_out.timeout),
            start_period: time(self.start_period, left_out.start_period),
            retries: given(self.retries)
                .map_or(left_out.retries, |number| u32::try_from(number).unwrap_or(u32::MAX)),
        }
    }

    /// `["CMD", WORDS…]`, `["CMD-SHELL", LINE]`, `["NONE"]`, or nothing.
    fn words(self) -> Vec<String> {
        let mut test = self.test.unwrap_or_default().into_iter();
        match test.next().as_deref() {
            Some("CMD") => test.collect(),
            Some("CMD-SHELL") => {
                ["/bin/sh", "-c"].map(str::to_owned).into_iter().chain(test).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Config {
    /// Digest of each layer unpacked, if it says them.
    pub(crate) fn unpacked(&self) -> &[String] {
        self.rootfs.as_ref().map_or(&[], |of| &of.diff_ids)
    }

    pub(crate) fn program(&self) -> Program {
        let container = self.config.clone().unwrap_or_default();
        let mut words = container.entrypoint.unwrap_or_default();
        words.extend(container.cmd.unwrap_or_default());
        let health = container.healthcheck.unwrap_or_default();
        Program {
            words,
            environment: container.env.unwrap_or_default(),
            user: container.user.unwrap_or_default(),
            folder: container.working_dir.unwrap_or_default(),
            stop_signal: container.stop_signal.unwrap_or_default(),
            health_times: health.times(),
            health: health.words(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_check_is_a_command_or_a_line_of_shell() {
        let health = |test: &str| {
            let config = format!(r#"{{"config": {{"Cmd": ["/web"], "Healthcheck": {test}}}}}"#);
            serde_json::from_str::<Config>(&config).unwrap().program().health
        };
        assert_eq!(
            health(r#"{"Test": ["CMD", "/bin/ok", "-q"], "Interval": 5}"#),
            ["/bin/ok", "-q"]
        );
        assert_eq!(
            health(r#"{"Test": ["CMD-SHELL", "curl localhost || exit 1"]}"#),
            ["/bin/sh", "-c", "curl localhost || exit 1"]
        );
        for none in
            [r#"{"Test": ["NONE"]}"#, r#"{"Test": []}"#, "{}", "null", r#"{"Test": ["SAY", "a"]}"#]
        {
            assert!(health(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn its_times_are_the_images_or_dockers() {
        let times = |check: &str| {
            let config = format!(r#"{{"config": {{"Healthcheck": {check}}}}}"#);
            serde_json::from_str::<Config>(&config).unwrap().program().health_times
        };
        let left_out = HealthTimes::default();
        assert_eq!(times("{}"), left_out);
        assert_eq!(times(r#"{"Interval": 0, "Timeout": -5, "Retries": 0}"#), left_out);
        let given = r#"{"Interval": 5000000000, "Timeout": 1500000000, "StartPeriod": 40000000000,
            "Retries": 7}"#;
        let ms = Duration::from_millis;
        let wanted = HealthTimes {
            interval: ms(5000),
            timeout: ms(1500),
            start_period: ms(40_000),
            retries: 7,
        };
        assert_eq!(times(given), wanted);
    }
}
