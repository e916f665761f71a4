//! Turns of a load, as stored in the manifest.

use std::time::Duration;

use record::turns::Turns;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TurnsForm {
    count: u32,
    slice_us: u32,
    settle_us: u32,
    series: u32,
}

impl TurnsForm {
    pub(crate) fn of(turns: Turns) -> Self {
        let Turns { count, slice, settle, series } = turns;
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        Self { count, slice_us: us(slice), settle_us: us(settle), series }
    }

    pub(crate) fn read(self) -> Turns {
        let Self { count, slice_us, settle_us, series } = self;
        let time = |us: u32| Duration::from_micros(us.into());
        Turns { count, slice: time(slice_us), settle: time(settle_us), series }
    }
}
