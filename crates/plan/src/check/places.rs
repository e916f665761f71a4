//! Checks that each instance of a server has its CPUs and memory nodes, in every configuration.

use record::bakeoff::Levels;

use super::checker::Checker;
use crate::parsed::ParsedServer;

impl Checker<'_> {
    /// Reports the first configuration in which lists and instances do not fit, for each key.
    pub(super) fn places(&mut self, server: Option<&ParsedServer>, cells: &[Levels]) {
        let Some(server) = server else { return };
        let Some(instances) = &server.instances else { return };
        for (key, places) in [("server.cpus", &server.cpus), ("server.mem", &server.mem)] {
            let Some(places) = places else { continue };
            if let Some(kind) = cells.iter().find_map(|levels| places.misfit(key, levels, instances)) {
                self.problem(places.position, kind);
            }
        }
    }
}
