//! Questions to a node: programs that copy and end by a number, calls that count, pages by the
//! network both ways, blocks of its disk.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::Node;
use crate::soak::Soak;

/// Counts that no run may lack.
pub(super) const ALL: [&str; 6] = [
    "copied by a program",
    "ended by a number",
    "counted by the window",
    "pages from the node",
    "pages to the node",
    "MiB of the disk written and read",
];

/// Calls at a time.
const CALLS: u32 = 20;

/// A client that asks one thing after the other.
pub(super) struct Traffic<'a> {
    soak: &'static Soak,
    node: &'a Node,
    number: u64,
    page: &'a [u8],
    rng: Rng,
    /// In which life of the node, how many calls have been counted.
    counted: (u64, u32),
}

impl<'a> Traffic<'a> {
    pub(super) fn new(soak: &'static Soak, node: &'a Node, number: u64, page: &'a [u8]) -> Self {
        let rng = soak.rng(number);
        Traffic { soak, node, number, page, rng, counted: (0, 0) }
    }

    /// Asks once; what the node's end has cut is no fault.
    pub(super) fn act(&mut self) -> Result<()> {
        let life = self.node.life();
        if !life.is_multiple_of(2) {
            self.soak.sleep(Duration::from_millis(200));
            return Ok(());
        }
        let done = match self.number {
            0 => self.copies(),
            1 => self.ends(),
            2 => self.counts(life),
            3 if self.rng.bool() => self.page_from(),
            3 => self.page_to(),
            _ => self.disk(),
        };
        match done {
            Err(_) if self.node.life() != life => {
                self.soak.count("cut by the node's end");
                Ok(())
            }
            done => done,
        }
    }

    /// Runs a line that must succeed, noted as a request.
    fn ask(&self, what: &str, line: &str, input: Vec<u8>) -> Result<Vec<u8>> {
        let waits = self.soak.request(what);
        let output = self.node.host().run(line, input)?;
        drop(waits);
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.exit.code() == 0, "{what}: {}: {said}", output.exit.code());
        Ok(output.stdout)
    }

    fn copies(&mut self) -> Result<()> {
        let bytes: Vec<u8> = (0..self.rng.usize(..100_000)).map(|_| self.rng.u8(..)).collect();
        let back =
            self.ask("a program that copies", "kumiki node exec n1 -- cat", bytes.clone())?;
        ensure!(back == bytes, "{} bytes back of {}", back.len(), bytes.len());
        self.soak.count(ALL[0]);
        Ok(())
    }

    fn ends(&mut self) -> Result<()> {
        let number = self.rng.u8(1..120);
        let what = "a program that ends by a number";
        let line = format!("kumiki node exec n1 -- sh -c 'exit {number}'; echo $?");
        let told = self.ask(what, &line, Vec::new())?;
        let told = String::from_utf8_lossy(&told);
        ensure!(told.trim() == number.to_string(), "{what}: {told}, not {number}");
        self.soak.count(ALL[1]);
        Ok(())
    }

    fn counts(&mut self, life: u64) -> Result<()> {
        if self.counted.0 != life {
            self.counted = (life, 0);
        }
        let line =
            format!("kumiki resource call n1.core0/counter/hits add 1 --line --times {CALLS}");
        let told = self.ask("calls by the window", &line, Vec::new())?;
        let told = String::from_utf8_lossy(&told);
        self.counted.1 += CALLS;
        let sum = self.counted.1;
        ensure!(told.trim() == sum.to_string(), "{told} after {sum} calls of this life");
        self.soak.count_many(ALL[2], CALLS.into());
        Ok(())
    }

    /// A page, which TCP brings whole whatever is lost.
    fn is_page(&self, bytes: &[u8]) -> Result<()> {
        ensure!(bytes == self.page, "{} bytes, not those of the page", bytes.len());
        Ok(())
    }

    fn page_from(&mut self) -> Result<()> {
        // Of a node that has gone nobody says that the rest will not come.
        let line = "timeout 50 wget -q -O - http://10.77.0.2/page";
        self.is_page(&self.ask("a page from the node", line, Vec::new())?)?;
        self.soak.count(ALL[3]);
        Ok(())
    }

    fn page_to(&mut self) -> Result<()> {
        let line = "kumiki node exec n1 -- timeout 50 wget -q -O - http://10.77.0.1/page";
        self.is_page(&self.ask("a page to the node", line, Vec::new())?)?;
        self.soak.count(ALL[4]);
        Ok(())
    }

    /// Writes a block of the disk, past the cache, and reads it back so, and by the host.
    fn disk(&mut self) -> Result<()> {
        let bytes: Vec<u8> = (0..1 << 20).map(|_| self.rng.u8(..)).collect();
        let at = self.rng.u32(..16);
        let block = format!("of=/dev/vda bs=1M seek={at} conv=fsync");
        let line =
            format!("kumiki node exec n1 -- sh -c 'dd {block} iflag=fullblock count=1 2>&1'");
        self.ask("a block written", &line, bytes.clone())?;
        let read = format!(
            "kumiki node exec n1 -- sh -c 'dd if=/dev/vda bs=1M skip={at} count=1 iflag=direct'"
        );
        let back = self.ask("a block read", &read, Vec::new())?;
        ensure!(back == bytes, "block {at} of the disk has other bytes ({})", back.len());
        let own = format!("dd if=/root/disk bs=1M skip={at} count=1");
        let there = self.ask("the host's block read", &own, Vec::new())?;
        ensure!(there == bytes, "block {at} of the host's file has other bytes");
        self.soak.count(ALL[5]);
        Ok(())
    }
}
