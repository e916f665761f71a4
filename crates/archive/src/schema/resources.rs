//! Resources over a measured phase, as stored in the manifest.

use std::collections::BTreeMap;

use record::missing::Missing;
use record::resources::{Resource, Resources, Used, UsedBy};
use serde::{Deserialize, Serialize};

use super::{Real, Wrong, word};

/// An amount, or the reason that it is missing.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ResourceForm {
    Used { amount: Real, by: String, from_ns: u64, until_ns: u64 },
    Missing { missing: String },
}

pub(crate) fn of(resources: &Resources) -> BTreeMap<String, ResourceForm> {
    let form = |used: &Result<Used, Missing>| match used {
        Ok(Used { amount, by, from_ns, until_ns }) => ResourceForm::Used {
            amount: Real(*amount),
            by: by.word().to_owned(),
            from_ns: *from_ns,
            until_ns: *until_ns,
        },
        Err(Missing { reason }) => ResourceForm::Missing { missing: reason.clone() },
    };
    resources.iter().map(|(resource, used)| (resource.word().to_owned(), form(used))).collect()
}

pub(crate) fn read(forms: BTreeMap<String, ResourceForm>) -> Result<Resources, Wrong> {
    let one = |(name, form): (String, ResourceForm)| {
        let resource = word("resource", &name, Resource::from_word)?;
        Ok((
            resource,
            match form {
                ResourceForm::Used { amount: Real(amount), by, from_ns, until_ns } => {
                    Ok(Used { amount, by: word("by", &by, UsedBy::from_word)?, from_ns, until_ns })
                }
                ResourceForm::Missing { missing } => Err(Missing::because(missing)),
            },
        ))
    };
    forms.into_iter().map(one).collect()
}
