//! CPUs and memory nodes of the instances of a server.

use record::bakeoff::Levels;

use crate::error::{Position, ProblemKind};
use crate::matrix::named;
use crate::template::Templated;

/// CPUs, or memory nodes, of the instances of a server.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) position: Position,
    /// One list for each instance; if `is_shared`, a single one that the instances share.
    pub(crate) lists: Vec<Templated<Vec<u32>>>,
    pub(crate) is_shared: bool,
}

impl Places {
    /// Places of one instance of a configuration.
    ///
    /// - `number`: from 1 to `instances`.
    pub(crate) fn of(&self, levels: &Levels, scratch: &str, number: u32, instances: u32) -> Vec<u32> {
        let list = |at: usize| self.lists[at].of(levels, scratch);
        if self.is_shared { part(&list(0), number, instances) } else { list(number as usize - 1) }
    }

    /// The problem of a configuration; `None` also if a value is missing there, which is a problem by itself.
    ///
    /// - `key`: `server.cpus`.
    pub(crate) fn misfit(
        &self,
        key: &str,
        levels: &Levels,
        instances: &Templated<u32>,
    ) -> Option<ProblemKind> {
        let count = instances.value_at(levels)?;
        let (places, expected) = if self.is_shared {
            let places = self.lists.first()?.value_at(levels)?.len();
            (places, format!("a list that {count} instances share in equal parts"))
        } else {
            (self.lists.len(), format!("one list for each of the {count} instances"))
        };
        let is_right =
            if self.is_shared { are_equal_parts(places, count as usize) } else { places == count as usize };
        let lists = self.lists.iter().flat_map(|list| list.template.names());
        let names: Vec<&str> = instances.template.names().chain(lists).collect();
        let mut used = levels.clone();
        used.retain(|name, _| names.contains(&name.as_str()));
        let at = if used.is_empty() { String::new() } else { format!(" at {}", named(&used)) };
        let found = format!("a list of {places}{at}");
        (!is_right).then(|| ProblemKind::BadValue { key: key.to_owned(), found, expected })
    }
}

/// Whether each instance gets as many places as any other, or each place as many instances.
fn are_equal_parts(places: usize, instances: usize) -> bool {
    places > 0 && instances > 0 && (places.is_multiple_of(instances) || instances.is_multiple_of(places))
}

/// Part of a list that belongs to an instance: neighbors, in order.
fn part(places: &[u32], number: u32, instances: u32) -> Vec<u32> {
    let (before, all) = (number as usize - 1, instances as usize);
    let from = before * places.len() / all;
    let until = ((before + 1) * places.len() / all).max(from + 1);
    places[from..until].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_list_is_dealt_out_in_equal_parts_of_neighbors() {
        let all = |places: &[u32], instances: u32| -> Vec<Vec<u32>> {
            (1..=instances).map(|number| part(places, number, instances)).collect()
        };
        assert_eq!(all(&[0, 1, 4, 5], 1), [vec![0, 1, 4, 5]]);
        assert_eq!(all(&[0, 1, 4, 5], 2), [vec![0, 1], vec![4, 5]]);
        assert_eq!(all(&[0, 1, 4, 5], 4), [vec![0], vec![1], vec![4], vec![5]]);
        // Fewer places than instances: equal numbers of instances on each.
        assert_eq!(all(&[0, 1], 4), [vec![0], vec![0], vec![1], vec![1]]);
        for (places, instances, is_fair) in
            [(4, 2, true), (2, 4, true), (3, 2, false), (2, 3, false), (1, 9, true)]
        {
            assert_eq!(are_equal_parts(places, instances), is_fair, "{places} for {instances}");
        }
    }
}
