//! The profile of a run on its page: its subject, its losses and doubts, names that others chose.

#[path = "../../analysis/tests/sample/mod.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod sample;

use std::collections::BTreeMap;

use bakeoff_report::identity::Hidden;
use bakeoff_report::{Form, page, render};
use record::missing::Missing;
use record::profile::{
    OTHER_STACKS, Profile, ProfileCost, ProfileDoubts, ProfileFilter, ProfileKind, ProfileStack, RunProfile,
    ThreadState,
};
use record::resources::UsedBy;
use record::run::Run;
use sample::Recipe;

/// A run with these profiles.
fn run(profiles: Vec<RunProfile>) -> Run {
    let mut run = Recipe::journal().bake().attempts[0].run.clone().expect("sealed");
    run.instruments.profiles = profiles;
    run
}

fn html(run: &Run) -> String {
    render(&page::load(run), Form::Html)
}

fn stack(comm: &str, frames: &[&str], count: u64) -> ProfileStack {
    ProfileStack {
        comm: comm.to_owned(),
        state: ThreadState::Running,
        frames: frames.iter().map(|f| (*f).to_owned()).collect(),
        count,
        ns: count * 1_003_009,
    }
}

/// A profile without losses and doubts.
fn taken(of: UsedBy) -> RunProfile {
    let profile = Profile {
        kind: ProfileKind::OnCpu,
        only: Ok(ProfileFilter::default()),
        elapsed_ns: 2_000_000_000,
        cpus: 2,
        period_ns: Ok(1_003_009),
        idle_samples: Ok(988),
        stacks: vec![
            stack("redis-server", &["main", "aeMain", "dictFind"], 1_400),
            stack("redis-server", &["main", "aeMain", "write", "tcp_sendmsg_[k]"], 600),
        ],
        still_off: 0,
        doubts: ProfileDoubts::default(),
        notes: Vec::new(),
        lost: BTreeMap::new(),
        cost: Ok(ProfileCost { ns_per_event: 2_100.0, events: 3_988, kernel_s: 0.0084, reader_s: 0.03 }),
    };
    RunProfile { of, profile, summed_stacks: 0 }
}

fn off_cpu(taken: RunProfile) -> RunProfile {
    let why = || Missing::because("an off-CPU profile has no samples");
    let kind = ProfileKind::OffCpu;
    let profile = Profile { kind, period_ns: Err(why()), idle_samples: Err(why()), ..taken.profile };
    RunProfile { profile, ..taken }
}

/// The section with this id.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("<section id=\"{id}\"")).expect("the page has the section");
    &page[from..from + page[from..].find("</section>").expect("sections end")]
}

#[test]
fn a_profile_has_a_folded_section_with_a_table_and_a_picture() {
    let page = html(&run(vec![taken(UsedBy::Server)]));
    let section = section(&page, "profile");
    assert!(section.contains("<details class=\"folded\">"), "{section}");
    // Function, own share and time, share and time with everything that it called.
    let row =
        "<td>dictFind</td><td class=\"n\">70.0</td><td class=\"n\">1.40 s</td><td class=\"n\">70.0</td>";
    assert!(section.contains(row), "{section}");
    assert_eq!(section.matches("<g class=\"flame\">").count(), 2, "for wide and narrow pages");
    for words in [
        "<title>dictFind: 1.4 s, 70.0 %</title>",
        "role=\"img\"",
        "<td>redis-server; main; aeMain; dictFind</td>",
        "Most time in themselves have dictFind 70.0",
        "Watching cost 2.10 us for each of 3,988 samples",
    ] {
        assert!(section.contains(words), "{words}: {section}");
    }
    assert!(!page.contains(">LOST") && !page.contains("lower bounds"), "nothing was lost");
    assert!(!html(&run(Vec::new())).contains("id=\"profile\""), "a run without profile has no section");
}

#[test]
fn a_profile_of_the_machine_is_not_called_the_servers() {
    let of_machine = html(&run(vec![taken(UsedBy::Machine), off_cpu(taken(UsedBy::Machine))]));
    for (id, but) in
        [("profile", "those of bakeoff itself included"), ("off-cpu", "except those of bakeoff itself")]
    {
        let section = section(&of_machine, id);
        assert!(!section.contains("server&#39;s") && !section.contains("of the server"), "{section}");
        assert!(section.contains("of all threads of the machine over 2.000 s"), "{section}");
        assert!(section.contains("does not tell the server from other processes"), "{section}");
        assert!(section.contains(but), "{section}");
    }
    let of_server = html(&run(vec![taken(UsedBy::Server)]));
    let section = section(&of_server, "profile");
    assert!(section.contains("of the server&#39;s processes over 2.000 s"), "{section}");
    assert!(!section.contains("all threads"), "{section}");
}

#[test]
fn a_profile_that_lost_samples_says_so_before_it_is_opened_and_its_times_are_bounds() {
    let mut lossy = taken(UsedBy::Server);
    lossy.profile.lost = [("samples-that-did-not-come".to_owned(), 120), ("no-room".to_owned(), 3)].into();
    let run = run(vec![lossy]);
    let page = html(&run);
    let section = section(&page, "profile");
    let heading = &section[..section.find("</summary>").expect("it is folded")];
    assert!(heading.contains("123 LOST"), "{heading}");
    assert!(
        section.contains("lost: 3 no-room, 120 samples-that-did-not-come; times are lower bounds"),
        "{section}"
    );
    assert!(section.contains("≥\u{202f}1.40 s") && section.contains("≥\u{202f}2,000 samples"), "{section}");
    let markdown = render(&page::load(&run), Form::Markdown);
    assert!(markdown.contains("times are lower bounds"), "{markdown}");
    let mut out = Vec::new();
    bakeoff_report::text::instruments(&mut out, &run.instruments, bakeoff_report::text::Style::PIPE)
        .expect("memory");
    let text = String::from_utf8(out).expect("text").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the server's processes") && text.contains("dictFind (70.0 %)"), "{text}");
    assert!(text.contains("LOST 123"), "{text}");
}

#[test]
fn doubts_are_on_the_page_symbols_that_are_missing_and_a_server_that_ended() {
    let mut doubtful = taken(UsedBy::Server);
    doubtful.profile.stacks = vec![
        stack("redis-server", &["[redis-server]"], 1_500),
        stack("redis-server", &["[process had ended]"], 500),
        stack(OTHER_STACKS, &[OTHER_STACKS], 1),
    ];
    doubtful.profile.doubts = ProfileDoubts {
        unnamed_ns: 1_500 * 1_003_009,
        ended_ns: 500 * 1_003_009,
        without_callers_ns: 1_500 * 1_003_009,
        ..ProfileDoubts::default()
    };
    doubtful.profile.notes =
        vec!["control group /x is gone: nothing counts until it is created anew".to_owned()];
    doubtful.summed_stacks = 77;
    let page = html(&run(vec![doubtful]));
    let section = section(&page, "profile");
    for words in [
        "% of the time is in code without symbols",
        "is of processes that ended before their functions could be named",
        "has no callers",
        "control group /x is gone",
        "77 stacks with the least time are stored as one sum, `[other stacks]`",
    ] {
        assert!(section.contains(words), "{words}: {section}");
    }
}

#[test]
fn what_was_not_profiled_says_why() {
    let mut run = run(Vec::new());
    let why = Missing::because("cannot trace stacks: needs root or CAP_BPF and CAP_PERFMON");
    run.instruments.missing.insert("off-cpu".to_owned(), why);
    let page = html(&run);
    assert!(section(&page, "off-cpu").contains("Not observed: cannot trace stacks: needs root"));
    // A server that had no CPU at all: no table, no picture, no division by zero.
    let mut idle = taken(UsedBy::Server);
    idle.profile.stacks.clear();
    let page = html(&self::run(vec![idle]));
    let section = section(&page, "profile");
    assert!(
        section.contains("0 samples") && !section.contains("flame\">") && !section.contains("NaN"),
        "{section}"
    );
}

#[test]
fn names_that_others_chose_are_text_and_homes_stay_private() {
    let hostile = "</title></svg><script>alert(1)</script>\u{1b}[2J\u{202e}";
    let mut odd = taken(UsedBy::Machine);
    odd.profile.stacks = vec![
        stack("<b>&\"'", &["main", hostile, &"x".repeat(4_000)], 900),
        stack("app", &["/home/alice/go/src/secret.Handle", "[libalice.so]"], 100),
        stack("|| a | b", &["`code` [link](http://x)"], 50),
    ];
    let run = run(vec![odd]);
    let page = html(&run);
    let section = section(&page, "profile");
    assert!(
        !section.contains("<script") && !section.contains('\u{1b}') && !section.contains('\u{202e}'),
        "{section}"
    );
    assert!(section.contains("&lt;script&gt;") && section.len() < 60_000, "{}", section.len());
    let mut copy = run.clone();
    let shared = Hidden::in_run(&mut copy).from_page(&page);
    assert!(!shared.contains("alice/go") && shared.contains("~/go/src/secret.Handle"), "the home is hidden");
    let markdown = render(&page::load(&run), Form::Markdown);
    assert!(!markdown.contains("<script") && !markdown.contains('\u{1b}'), "{markdown}");
}
