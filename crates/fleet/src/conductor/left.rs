//! Spools that agents have left of a run without its conductor.

use std::collections::BTreeMap;

use async_nats::Client;

use super::office;
use crate::error::FleetError;
use crate::wire::{self, Answer, Hello, LeftSpool, Order};

/// Spools that agents have left, by run and owner, with the agent that answers for each and the number of its
/// machine's start.
pub(super) type AllLeft = BTreeMap<(String, String), (Hello, LeftSpool, String)>;

/// The spools of the run, and of the agents beside it.
pub(super) async fn left(client: &Client, hellos: &[Hello], run: &str) -> Result<AllLeft, FleetError> {
    let works = [run.to_owned(), wire::observed(run), wire::probed(run)];
    if let Some(hello) =
        hellos.iter().find(|hello| hello.busy.as_ref().is_some_and(|run| works.contains(run)))
    {
        let text = format!("agent {} still plays run {run}: wait for its end", hello.agent);
        return Err(FleetError::Unfit(text));
    }
    let mut all = AllLeft::new();
    for hello in hellos {
        let Ok(Answer::Left { boot, spools, .. }) = office::ask(client, hello, Order::Left).await else {
            continue;
        };
        let is_wanted = |spool: &LeftSpool| works.contains(&spool.run) && wire::is_name(&spool.owner);
        for spool in spools.into_iter().filter(is_wanted) {
            // Several agents of a machine tell of the spool of one that no longer runs.
            let (is_own, key) = (spool.owner == hello.agent, (spool.run.clone(), spool.owner.clone()));
            if is_own || !all.contains_key(&key) {
                all.insert(key, (hello.clone(), spool, boot.clone()));
            }
        }
    }
    Ok(all)
}
