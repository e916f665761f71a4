//! Description of the machine, as stored.

use std::collections::BTreeMap;

use record::environment::Environment;
use record::missing::Missing;
use serde::{Deserialize, Serialize};

use super::proof::CalibrationForm;
use super::{Form, Wrong};

/// Form of `env.json`.
pub(crate) const FORM: Form = Form { tag: "bakeoff.environment/1" };

/// `env.json`: the machine of a bake-off.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EnvironmentFile {
    schema: String,
    #[serde(flatten)]
    pub(crate) facts: Facts,
}

/// Known facts, and the reasons that others are missing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    #[serde(rename = "facts")]
    known: BTreeMap<String, String>,
    missing: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calibration: Vec<CalibrationForm>,
}

impl EnvironmentFile {
    pub(crate) fn of(environment: &Environment) -> Self {
        Self { schema: FORM.tag.to_owned(), facts: Facts::of(environment) }
    }
}

impl Facts {
    pub(crate) fn of(environment: &Environment) -> Self {
        let Environment { facts, calibration } = environment;
        let (mut known, mut missing) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in facts {
            match value {
                Ok(value) => known.insert(name.clone(), value.clone()),
                Err(why) => missing.insert(name.clone(), why.reason.clone()),
            };
        }
        Self { known, missing, calibration: calibration.iter().map(CalibrationForm::of).collect() }
    }

    /// The fact with this name, if it is known.
    pub(crate) fn known(&self, name: &str) -> Option<&str> {
        self.known.get(name).map(String::as_str)
    }

    pub(crate) fn read(self) -> Result<Environment, Wrong> {
        let known = self.known.into_iter().map(|(name, value)| (name, Ok(value)));
        let missing = self.missing.into_iter().map(|(name, why)| (name, Err(Missing::because(why))));
        let calibration =
            self.calibration.into_iter().map(CalibrationForm::read).collect::<Result<_, _>>()?;
        Ok(Environment { facts: known.chain(missing).collect(), calibration })
    }
}
