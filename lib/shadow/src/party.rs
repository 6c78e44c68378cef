//! Helpers of a large team to which another helper hands work on.
//!
//! The main thread fetches a line of each helper that it waits for, one after the other: 63 far ones
//! take twelve microseconds. From [`MANY`] members on it hands work to its own neighbours and to a leader
//! of each group of others, who hands it on to his: the groups' lines move at the same time, and
//! most of them not far. There is no other protocol than that of a shadow's line; while a leader's job
//! runs, its thread is the main one of his followers.

use crate::shadow::Shadow;

/// Members from which on some hand work on: with fewer the way over two lines takes longer (rows
/// `broadcast` of dev/sim/counts.txt).
pub(crate) const MANY: usize = 16;
/// Members of a group, its leader among them: as many as share a cache on common machines, and near the square
/// root of the largest teams.
const GROUP: usize = 8;

/// A leader's followers.
pub(crate) struct Party {
    pub(crate) shadows: Vec<Shadow>,
    /// Number of the first one as a member.
    pub(crate) first: usize,
}

/// A party that its leader has for one job.
pub(crate) struct Lent<'a>(&'a mut Party);

// SAFETY: what a shadow has of its main thread's own is where that runs, and the cpus that it has
// taken: who is lent one neither asks for the first (`Shadow::submit_for_main`) nor drops the second.
// All else is the line, whose main side is the borrower's until the job ends, and numbers.
unsafe impl Send for Lent<'_> {}

impl<'a> Lent<'a> {
    pub(crate) fn of(party: &'a mut Party) -> Self {
        Lent(party)
    }

    pub(crate) fn party(self) -> &'a mut Party {
        self.0
    }
}

/// Parts the helpers of a team, the nearest first, into those that the main thread hands work to itself and the parties
/// of the last ones of these, in their order.
pub(crate) fn parted(shadows: Vec<Shadow>) -> (Vec<Shadow>, Vec<Party>) {
    if shadows.len() + 1 < MANY {
        return (shadows, Vec::new());
    }
    let mut groups = grouped(shadows, Shadow::is_nearer).into_iter();
    let mut direct = groups.next().unwrap_or_default();
    let mut followers = Vec::new();
    for mut group in groups {
        let rest = group.split_off(1);
        direct.extend(group);
        followers.push(rest);
    }
    let mut first = direct.len() + 1;
    let parties = followers.into_iter().map(|shadows| {
        let party = Party { first, shadows };
        first += party.shadows.len();
        party
    });
    let parties = parties.collect();
    (direct, parties)
}

/// Groups of those that are nearer to each other than to the main thread; where that makes small ones, as they come.
/// The first one lacks the main thread.
fn grouped<T>(all: Vec<T>, is_nearer: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut near: Vec<Vec<T>> = Vec::new();
    for one in all {
        let is_near = |group: &&mut Vec<T>| {
            group.len() < GROUP && group.first().is_some_and(|first| is_nearer(first, &one))
        };
        match near.iter_mut().find(is_near) {
            Some(group) => group.push(one),
            None => near.push(vec![one]),
        }
    }
    let mut groups: Vec<Vec<T>> = Vec::new();
    for group in near {
        let room = if groups.len() == 1 { GROUP - 1 } else { GROUP };
        match groups.last_mut().filter(|last| last.len() + group.len() <= room) {
            Some(last) => last.extend(group),
            None => groups.push(group),
        }
    }
    groups
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Groups of the helpers of cpu 0's thread, of a machine of clusters.
    fn of(cpus: usize, cluster: usize) -> Vec<Vec<usize>> {
        let near = |a: usize, b: usize| a / cluster == b / cluster;
        grouped((1..cpus).collect(), |a, b| near(*a, *b) && !near(0, *b))
    }

    #[test]
    fn each_cluster_has_a_leader() {
        let groups = of(64, 8);
        assert_eq!(groups.len(), 8);
        assert_eq!(groups[0], [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(groups[7], [56, 57, 58, 59, 60, 61, 62, 63]);
        // Siblings of cores have the second half of the numbers: 0 to 7 are beside 32 to 39.
        let cluster = |cpu: usize| cpu % 32 / 8;
        let nearer = |a: &usize, b: &usize| cluster(*a) == cluster(*b) && cluster(*b) != 0;
        let groups = grouped((1..64).collect(), nearer);
        assert!(
            groups.iter().skip(2).all(|group| {
                group.len() <= GROUP && group.iter().all(|cpu| cluster(*cpu) == cluster(group[0]))
            }),
            "{groups:?}"
        );
        assert_eq!(groups.concat().len(), 63);
    }

    #[test]
    fn where_all_are_as_far_or_clusters_are_small_groups_are_full_all_the_same() {
        for cluster in [1, 2, 4, 64] {
            let groups = of(64, cluster);
            let sizes: Vec<_> = groups.iter().map(Vec::len).collect();
            assert_eq!(sizes, [7, 8, 8, 8, 8, 8, 8, 8], "{cluster}");
        }
    }

    #[test]
    fn a_small_team_has_no_parties() {
        let shadows = (1..MANY - 1).map(|_| Shadow::inline()).collect();
        let (direct, parties) = parted(shadows);
        assert_eq!((direct.len(), parties.len()), (MANY - 2, 0));
    }

    #[test]
    fn members_have_the_numbers_after_those_that_the_main_thread_leads() {
        let (direct, parties) = parted((1..20).map(|_| Shadow::inline()).collect());
        let parties: Vec<_> =
            parties.iter().map(|party| (party.first, party.shadows.len())).collect();
        assert_eq!((direct.len(), &parties[..]), (9, &[(10, 7), (17, 3)][..]));
    }
}
