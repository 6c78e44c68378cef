//! The kernel's command line: what keeps a node off the host's devices, and
//! what the user adds.

use crate::{Error, Result};

/// Words of a command line; the user's come after ours and so win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Parameters of every node: `cpus` of it, a time stamp counter of `tsc_khz`.
    pub fn of_node(cpus: usize, tsc_khz: u64) -> Self {
        let mut line = CommandLine::default();
        line.word(format!("nr_cpus={cpus}"));
        line.word(format!("tsc_early_khz={tsc_khz}"));
        let constant = [
            // A broadcast would reach the host's cpus.
            "no_ipi_broadcast=1",
            // Devices are the host's.
            "pci=off",
            // No other clock is there to check it against.
            "tsc=reliable",
            "no_timer_check",
            // A panic halts, and the host sees it.
            "panic=0",
            // Probing for them switches the host's interrupts off.
            "8250.nr_uarts=0",
            // Linux claims what is behind its memory, up to 64 MiB, as "RAM buffer": other nodes
            // and the host, which /dev/mem then refuses to who starts or watches them.
            "iomem=relaxed",
            // Memory that comes while it runs is for what moves, so that it can go again.
            "memhp_default_state=online_movable",
            // A kernel finds its place by the loader, not by chance.
            "nokaslr",
        ];
        constant.into_iter().for_each(|word| line.word(word));
        line
    }

    /// Adds the parameters of a node that has PCI functions: its kernel reaches them by memory, and
    /// never tries the ports of configuration, which are one pair for the whole machine.
    pub fn with_pci(mut self) -> Self {
        let words = ["pci=noearly,norom", "reserve=0xcf8,8"].map(str::to_owned);
        let at = self.words.iter().position(|word| word == "pci=off");
        let at = at.map_or(0..0, |at| at..at + 1);
        self.words.splice(at, words);
        self
    }

    /// Adds the parameters of a node whose kernel is told of cpus that others have: it
    /// begins with the first alone, and sends nothing to another one before the node's module has
    /// looked whose it is. (Parallel starts take the first of each core, whatever `maxcpus` says.)
    pub fn with_its_first_cpu(mut self) -> Self {
        self.word("maxcpus=1");
        self.word("cpuhp.parallel=0");
        self
    }

    /// Adds the parameter of a node whose kernel is told of ids that only an x2APIC has: without one for
    /// an IOAPIC, of which a node has none, it would leave that mode, and its first cpu cannot.
    pub fn with_x2apic(mut self) -> Self {
        self.word("noapic");
        self
    }

    /// Adds a word, or several.
    pub fn word(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
    }

    /// The first program, from the initramfs, with its arguments: words that no kernel
    /// knows, and without `=`. Such a word is handed on, and those that come later follow.
    /// Behind `--` arguments would be lost with any parameter that has a wrong value.
    pub fn init(&mut self, program: &str, arguments: &[&str]) {
        self.word(format!("rdinit={program}"));
        arguments.iter().for_each(|&argument| self.word(argument));
    }

    /// Bytes that the kernel reads, ended by a zero; `limit` without that.
    pub(crate) fn to_bytes(&self, limit: usize) -> Result<Vec<u8>> {
        let text = self.to_string();
        if text.len() > limit {
            return Err(Error::CommandLine { have: text.len(), limit });
        }
        let mut bytes = text.into_bytes();
        bytes.push(0);
        Ok(bytes)
    }
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_program_gets_comes_before_the_users_words() {
        let mut line = CommandLine::of_node(2, 2_600_000);
        line.init("/bin/kumiki", &["node", "agent"]);
        line.word("quiet");
        let text = line.to_string();
        assert!(text.starts_with("nr_cpus=2 tsc_early_khz=2600000 "), "{text}");
        assert!(text.ends_with(" rdinit=/bin/kumiki node agent quiet"), "{text}");
        assert_eq!(line.to_bytes(text.len()).unwrap().last(), Some(&0));
    }

    #[test]
    fn a_node_with_functions_finds_them_by_memory_alone() {
        let line = CommandLine::of_node(1, 1).with_pci().to_string();
        assert!(line.contains(" pci=noearly,norom reserve=0xcf8,8 tsc=reliable "), "{line}");
        assert!(!line.contains("pci=off"));
    }

    #[test]
    fn only_a_node_of_ids_above_254_is_told_that_it_has_no_ioapic() {
        let line = CommandLine::of_node(1, 1);
        assert!(!line.to_string().contains("noapic"));
        assert!(line.with_x2apic().to_string().ends_with(" noapic"));
    }

    #[test]
    fn a_line_beyond_the_kernels_limit_is_refused() {
        let error = CommandLine::of_node(1, 1).to_bytes(20).unwrap_err();
        assert!(error.to_string().contains("at most 20"), "{error}");
    }
}
