//! Errors before the first event.

use record::load::LoadSettings;

use crate::connection::{Failure, FailureClass};
use crate::error::LoadError;

/// The error for a failure before the first event.
pub(crate) fn setup_error(settings: &LoadSettings, failure: &Failure) -> LoadError {
    let target = settings.target.clone();
    let text = target.hide_in(&failure.text);
    match failure.class {
        FailureClass::Configuration => LoadError::Refused { target, text },
        FailureClass::Machine => LoadError::Machine { target, text },
        _ => LoadError::NotConnected { target, made: 0, of: settings.connections_in_all(), text },
    }
}
