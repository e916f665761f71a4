//! Keys of the factors and of the design.

use std::time::Duration;

use record::bakeoff::Plot;
use record::load::settings::{self, Values};

use super::kind::{
    ANY_TIME, BOOL, Key, Kind, Need, Placeholders, RUN_RETRIES, TEXT, TEXTS, WITHOUT_IT_NONE, at_least, form,
    key, whole, word,
};

fn plots() -> Vec<&'static str> {
    Plot::ALL.iter().map(|p| p.word()).collect()
}

fn modes() -> Vec<&'static str> {
    vec!["series", "slices"]
}

/// Keys of a factor.
pub(super) const FACTOR: &[Key] = &[
    key("values", Kind::Levels, Need::Required, "[\"delete\", \"wal\"]", "its values, without duplicates"),
    key(
        "reference",
        Kind::Scalar,
        Need::Optional("the value of a whole-plot factor with one value; an error if it has several"),
        "\"delete\"",
        "the value that the others are compared with; whole-plot factors only",
    ),
    key(
        "level",
        word(plots),
        Need::Required,
        "\"whole-plot\"",
        "whole-plot: each value gets a fresh server, with its data rebuilt and warmed up; sub-plot: \
         all values run on the same server",
    ),
    key(
        "only",
        Kind::Combination,
        Need::Optional("the factor exists in every configuration"),
        "{ allocator = \"jemalloc\" }",
        "nests the factor: it exists only in cells with these levels of other factors; a list stands for any \
         of its levels",
    ),
];

/// Keys of the design.
pub(super) const DESIGN: &[Key] = &[
    key(
        "sequential",
        BOOL,
        Need::Optional("every configuration is measured in every block"),
        "true",
        "drop a configuration as soon as it is worse than the reference, by the first metric of `judge.metrics`, \
         beyond doubt and in every condition; the rate of false verdicts stays the same",
    ),
    key(
        "mode",
        word(modes),
        Need::Optional("\"series\""),
        "\"slices\"",
        "\"series\": the series of a block are measured one after another; \"slices\": all are alive at once and are \
         loaded in turns, in random order, while the idle servers are frozen",
    ),
    key(
        "slice",
        form("a duration such as \"300ms\", from 100ms to 500ms"),
        Need::Optional("300ms, if `mode` is \"slices\""),
        "\"300ms\"",
        "length of a turn, with `mode = \"slices\"` only",
    ),
    key(
        "blocks",
        whole(1, 1_000),
        Need::Required,
        "6",
        "number of blocks; a block runs one series of every configuration, in random order",
    ),
    key(
        "seed",
        Kind::Value(settings::SEED.values),
        Need::Setting { default: settings::SEED.default_text(), is_listed: true },
        "20261121",
        "random seed of the order and of the load",
    ),
    key(
        "time_budget",
        at_least(Duration::from_millis(1)),
        Need::Optional("no limit"),
        "\"14h\"",
        "longest duration of the bake-off; `plan check` refuses a plan whose warm-up, measured \
         phases and cool-down alone exceed it; at run time, setup, start and prepare count too, and \
         `run` prints a note if it will not suffice",
    ),
    key(
        "exclude",
        Kind::Combinations,
        WITHOUT_IT_NONE,
        "[{ allocator = \"jemalloc\", threads = 1 }]",
        "combinations of levels that are not measured; an entry stands for every cell that has its levels, \
         and a list for any of its levels",
    ),
    key(
        "include",
        Kind::Combinations,
        WITHOUT_IT_NONE,
        "[{ allocator = \"jemalloc\", threads = 64 }]",
        "combinations that are measured in addition, or although `exclude` has them; a level that is not \
         among the `values` of its factor occurs only here; a factor that an entry does not name takes each of \
         its `values`",
    ),
];

const BUILDS: Placeholders = Placeholders::WholePlot { because: "programs are built before the first trial" };

/// Keys of a build.
pub(super) const BUILD: &[Key] = &[
    key(
        "run",
        TEXT,
        Need::Required,
        "\"make install PREFIX={build}\"",
        "the command, run by `sh` in the folder of the source; it writes its output to `{build}`",
    )
    .with(BUILDS),
    key(
        "source",
        TEXT,
        WITHOUT_IT_NONE,
        "\".\"",
        "a git repository, relative to the plan's folder; the command gets its files as of `revision`, without \
         submodules and without `.git`",
    ),
    key(
        "revision",
        TEXT,
        Need::Optional("`HEAD`, with `source`"),
        "\"{revision}\"",
        "the revision of `source`: a commit, tag or branch; resolved once, when the bake-off begins",
    )
    .with(BUILDS),
    key(
        "env",
        TEXTS,
        WITHOUT_IT_NONE,
        "[\"CC\", \"CFLAGS\"]",
        "environment variables that the command gets, besides PATH, LANG, HOME and TMPDIR; another value is \
         another build",
    ),
    key(
        "timeout",
        at_least(Duration::from_millis(1)),
        Need::Default("\"1h\""),
        "\"20m\"",
        "time limit; bakeoff then kills the command's process group, and the command has failed",
    ),
    RUN_RETRIES,
];

/// Keys of the admission of trials.
pub(super) const ADMISSION: &[Key] = &[
    key(
        "busy",
        Kind::Value(Values::Percent { max_ratio: 1.0 }),
        Need::Default("\"5%\""),
        "\"10%\"",
        "the largest share of the CPUs that other work may use just before a trial",
    ),
    key(
        "free",
        Kind::Value(Values::Bytes { min: 16 << 20 }),
        Need::Default("\"100MiB\""),
        "\"2GiB\"",
        "the least free space of the disks of the scratch folder and of the archive; with less, a trial fails \
         before it begins",
    ),
    key(
        "wait",
        ANY_TIME,
        Need::Default("\"30s\""),
        "\"5m\"",
        "the longest wait for these conditions before each trial",
    ),
    key(
        "otherwise",
        word(|| vec!["flag", "postpone"]),
        Need::Default("\"flag\""),
        "\"postpone\"",
        "a trial for which they do not hold by then is measured and flagged, or is repeated once at the end of \
         its block, and then measured and flagged",
    ),
];
