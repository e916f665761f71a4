use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use record::clock::Monotonic;
use record::load::ScriptFile;

use super::*;
use crate::connection::{Attempt, Laps};
use crate::schedule::random::Random;
use crate::workload::sql::{self, Sql, Work};

fn settings(texts: &[&str]) -> ScriptSettings {
    let file = |text: &&str| ScriptFile { name: "t.sql".to_owned(), weight: 1, text: (*text).to_owned() };
    ScriptSettings {
        files: texts.iter().map(file).collect(),
        defines: vec![("scale".to_owned(), "10".to_owned())],
    }
}

/// A session that records its statements, and answers each with one row.
#[derive(Default)]
struct Noted {
    /// Index of the statement that fails.
    fails: Option<usize>,
    sent: Vec<String>,
    answer: Vec<(String, Option<String>)>,
    texts: Vec<StatementText>,
}

impl Sql for Noted {
    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        row: Option<&mut ResultRow>,
    ) -> Result<(), Failure> {
        let mut sql = String::new();
        self.texts[statement].write_values(
            parameters,
            crate::workload::statement::Quoting::Standard,
            &mut sql,
        );
        self.sent.push(sql);
        if self.fails == Some(statement) {
            return Err(Failure::new(FailureClass::Application, "division by zero"));
        }
        if let Some(row) = row {
            row.clear();
            row.rows = 1;
            (row.names, row.values) = self.answer.iter().cloned().unzip();
        }
        Ok(())
    }

    fn roll_back(&mut self) {
        self.sent.push("rolled back".to_owned());
    }

    fn is_in_transaction(&self) -> bool {
        let count = |word| self.sent.iter().filter(|s| s.as_str() == word).count();
        count("BEGIN") > count("COMMIT")
    }
}

/// The statements that one event of a script sends.
fn sent(text: &str, event: u64) -> Result<Vec<String>, String> {
    let scripts = Scripts::new(&settings(&[text]), 5)?;
    let answer = vec![("n".to_owned(), Some("42".to_owned())), ("gone".to_owned(), None)];
    let mut noted = Noted { texts: scripts.statements().to_vec(), answer, ..Noted::default() };
    let mut laps = Laps::new(Arc::new(Monotonic), &scripts.operations(), Arc::new(AtomicBool::new(false)));
    laps.begin(0);
    let mut attempt = Attempt { random: Random::of(1, event), laps: &mut laps };
    let work = Work::Script(scripts);
    sql::run(&mut noted, &work, &mut sql::Execution::of(&work), &mut attempt).map_err(|f| f.text)?;
    Ok(noted.sent)
}

#[test]
fn a_statement_that_fails_is_named_by_its_file_and_line() {
    let scripts = Scripts::new(&settings(&["SELECT 1;\n  SELECT 1/0;"]), 5).unwrap();
    let lost = Failure::new(FailureClass::Connection, "gone");
    assert_eq!(scripts.placed(1, lost.clone()), lost, "no statement's fault");
    let wrong = scripts.placed(1, Failure::new(FailureClass::Configuration, "syntax error"));
    assert_eq!(wrong.text, "t.sql:2:3: syntax error");
    let mut noted = Noted { texts: scripts.statements().to_vec(), fails: Some(1), ..Noted::default() };
    let mut laps = Laps::new(Arc::new(Monotonic), &scripts.operations(), Arc::new(AtomicBool::new(false)));
    laps.begin(0);
    let mut attempt = Attempt { random: Random::of(1, 1), laps: &mut laps };
    let work = Work::Script(scripts);
    let mut execution = sql::Execution::of(&work);
    let failure = sql::run(&mut noted, &work, &mut execution, &mut attempt).unwrap_err();
    assert_eq!(failure.text, "t.sql:2:3: division by zero");
    // The same position is reported if the answer arrives later, as on a multiplexed connection.
    let failure = execution.placed(&work, Failure::new(FailureClass::Application, "late"));
    assert_eq!(failure.text, "t.sql:2:3: late");
}

#[test]
fn a_script_that_does_nothing_is_refused() {
    for text in ["", "\n \n", "-- nothing\n", "/* nothing */", ";\n;"] {
        let problem = Scripts::new(&settings(&[text]), 5).unwrap_err();
        assert!(problem.starts_with("t.sql: the script is empty"), "{text:?}: {problem}");
    }
    assert!(Scripts::new(&settings(&["\\sleep 1 ms"]), 5).is_ok());
}

/// The value of an expression, as sent in a statement.
#[track_caller]
fn value(expression: &str) -> String {
    sent(&format!("\\set x {expression}\nSELECT :x;"), 1).unwrap().remove(0).replace("SELECT ", "")
}

#[test]
fn expressions_have_the_values_that_pgbench_gives_them() {
    // Found with pgbench 15's debug().
    for (expression, expected) in [
        ("1 + 2 * 3 - 4 / 2", "5"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7 / 2.0", "3.5e0"),
        ("(1 + 2) * 3", "9"),
        ("- -3", "3"),
        ("2 * -3", "-6"),
        ("5 & 3 | 8", "9"),
        ("6 # 3", "5"),
        ("~5", "-6"),
        ("1 << 4 >> 1", "8"),
        ("1 < 2 and 2 >= 2 and not 3 <> 3", "1"),
        ("1 > 2 or 3 != 4", "1"),
        ("null is null and 1 is not null", "1"),
        ("(1 = 1) is true", "1"),
        ("case when 1 > 2 then 10 when 2 > 1 then 20 else 30 end", "20"),
        ("case when false then 1 end", "NULL"),
        ("null + 1", "NULL"),
        ("abs(-4) + greatest(1, 7, 3) + least(5, 2)", "13"),
        ("int(5.4 + 3.8)", "9"),
        ("int(1.7)", "2"),
        ("int(2.5)", "2"),
        ("int(3.5)", "4"),
        ("int(-1.7)", "-2"),
        ("5.7 % 2", "0"),
        ("mod(7.6, 3)", "2"),
        ("6.9 | 0", "7"),
        ("random(500 * 0.02, 9.6)", "10"),
        ("hash(10.4, 5432)", "-5817877081768721676"),
        ("null or true", "NULL"),
        ("false and null", "0"),
        ("1 is true", "0"),
        ("0 is false", "0"),
        ("(1 = 2) is false", "1"),
        ("null is true", "0"),
        ("double(3) / 2", "1.5e0"),
        ("mod(17, 5)", "2"),
        ("pow(2, 10)", "1.024e3"),
        ("sqrt(2.25)", "1.5e0"),
        ("ln(exp(1.0))", "1e0"),
        ("pi() > 3.14", "1"),
        ("hash(10, 5432)", "-5817877081768721676"),
        ("hash_murmur2(10, 5432)", "-5817877081768721676"),
        ("hash_fnv1a(10, 5432)", "-7793829335365542153"),
        (":scale * 1.5e1", "1.5e2"),
        ("true", "1"),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn random_numbers_keep_their_bounds_and_their_laws() {
    let draws = |function: &str| -> Vec<i64> {
        let one =
            |event| sent(&format!("\\set x {function}\nSELECT :x;"), event).unwrap()[0][7..].parse().unwrap();
        (0..2_000).map(one).collect()
    };
    let mean = |draws: &[i64]| draws.iter().sum::<i64>() as f64 / draws.len() as f64;
    for (function, expected_mean, within) in [
        ("random(1, 100)", 50.5, 3.0),
        // A bell curve is symmetric about its middle.
        ("random_gaussian(1, 100, 4.0)", 50.5, 1.5),
        // 100 / 5 of the range, minus the truncated tail.
        ("random_exponential(1, 100, 5.0)", 20.3, 2.0),
        // The sum of k^-0 over the sum of k^-1, k = 1 to 100: 100 / 5.187.
        ("random_zipfian(1, 100, 1.0)", 19.28, 2.5),
    ] {
        let draws = draws(function);
        assert!(draws.iter().all(|x| (1..=100).contains(x)), "{function}");
        let found = mean(&draws);
        assert!((found - expected_mean).abs() < within, "{function}: {found}");
    }
    assert_eq!(draws("random(7, 7)")[0], 7);
    // The same event draws the same numbers.
    let script = "\\set a random(1, 1000000)\nSELECT :a;";
    assert_eq!(sent(script, 9), sent(script, 9));
    assert_ne!(sent(script, 9), sent(script, 10));
}

#[test]
fn statements_are_told_apart_and_only_variables_are_replaced() {
    let script = "-- a comment; with a semicolon\n\\set v 5\nSELECT ':w', \":w\", `:w`, $$:w;$$, $q$ :w '::v' $q$ /* :v; */ , -- :v\n \
                  x::int, :v;;\n UPDATE t SET a = 'it''s; ' WHERE b=:v";
    let sent = sent(script, 1).unwrap();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], "SELECT ':w', \":w\", `:w`, $$:w;$$, $q$ :w '::v' $q$ /* :v; */ , \n x::int, 5");
    assert_eq!(sent[1], "UPDATE t SET a = 'it''s; ' WHERE b=5");
}

#[test]
fn an_answer_without_rows_is_not_taken_for_the_one_before() {
    let scripts = Scripts::new(&settings(&["SELECT 1 AS n \\gset\nDO 0 \\gset\nSELECT :n;"]), 5).unwrap();
    let mut execution = ScriptExecution::new();
    execution.begin(&scripts, Random::of(1, 1));
    // Some servers' answers without rows do not mention any: the row stays as it is.
    let mut ask = |statement: usize, _: &[Parameter<'_>], row: Option<&mut ResultRow>| {
        if let (0, Some(row)) = (statement, row) {
            (row.names, row.values, row.rows) = (vec!["n".to_owned()], vec![Some("1".to_owned())], 1);
        }
        Ok(())
    };
    for _ in 0..2 {
        assert!(matches!(execution.turn(&scripts, &mut ask).unwrap(), Turn::Asked { .. }));
    }
    let failure = execution.turn(&scripts, &mut ask).unwrap_err();
    assert_eq!(failure.text, "t.sql:2:1: \\gset needs one row, but the answer has 0");
}

/// Scripts of pgbench, after they read the scale from a server with that many branches.
fn of_pgbench(define: Option<&str>, branches: u64) -> (Scripts, Result<(), Failure>) {
    let text = "\\set x 0 + :scale\nSELECT :x;".to_owned();
    let files = vec![ScriptFile { name: "builtin-select-only".to_owned(), weight: 1, text }];
    let defines = define.map(|scale| ("scale".to_owned(), scale.to_owned())).into_iter().collect();
    let scripts = Scripts::new(&ScriptSettings { files, defines }, 5).unwrap();
    let read = scripts.read_scale(|sql| {
        assert_eq!(sql, "SELECT count(*) FROM pgbench_branches");
        Ok(branches)
    });
    (scripts, read)
}

#[test]
fn the_scale_of_pgbenchs_scripts_is_that_of_its_tables_unless_it_is_given() {
    let sent = |scripts: Scripts| {
        let mut noted = Noted { texts: scripts.statements().to_vec(), ..Noted::default() };
        let mut laps =
            Laps::new(Arc::new(Monotonic), &scripts.operations(), Arc::new(AtomicBool::new(false)));
        laps.begin(0);
        let mut attempt = Attempt { random: Random::of(1, 1), laps: &mut laps };
        let work = Work::Script(scripts);
        sql::run(&mut noted, &work, &mut sql::Execution::of(&work), &mut attempt).unwrap();
        noted.sent.remove(0)
    };
    let (scripts, read) = of_pgbench(None, 100);
    assert_eq!((read, scripts.scale()), (Ok(()), Some(100)));
    assert_eq!(sent(scripts), "SELECT 100");
    let (scripts, read) = of_pgbench(Some("7"), 100);
    assert_eq!((read, scripts.scale()), (Ok(()), None));
    assert_eq!(sent(scripts), "SELECT 7");
    let (_, read) = of_pgbench(None, 0);
    let failure = read.unwrap_err();
    assert_eq!(failure.class, FailureClass::Configuration);
    assert!(failure.text.contains("it has no rows; build the tables with `pgbench -i`"), "{}", failure.text);
    // A script of the user has no scale unless it is given.
    let files = vec![ScriptFile { name: "t.sql".to_owned(), weight: 1, text: "SELECT :scale;".to_owned() }];
    let problem = Scripts::new(&ScriptSettings { files, defines: Vec::new() }, 5).unwrap_err();
    assert!(problem.contains("unknown variable `scale`"), "{problem}");
}

#[test]
fn branches_and_answers_lead_on() {
    let script = "SELECT n, gone FROM t \\gset p_\n\\if :p_n > 40\nSELECT 'more';\n\\if false\nSELECT 'never';\n\\else\n\
                  SELECT :p_n + \\\n1;\n\\endif\n\\elif true\nSELECT 'less';\n\\else\nSELECT 'nor this';\n\\endif\nSELECT :p_gone;";
    let script = script.replace(" + \\\n1", " + 1");
    assert_eq!(
        sent(&script, 1).unwrap(),
        ["SELECT n, gone FROM t", "SELECT 'more'", "SELECT '42' + 1", "SELECT NULL"]
    );
    let long = "\\set x 1 + \\\n  2\n\\if :x = 3\nSELECT 1;\n\\elif :x = 4\nSELECT 2;\n\\endif";
    assert_eq!(sent(long, 1).unwrap(), ["SELECT 1"]);
}

#[test]
fn what_is_wrong_is_told_by_line_and_column() {
    for (script, says) in [
        ("SELECT 1;\n\\sett x 1", "t.sql:2:1: unknown command `\\sett`"),
        ("\\set x random(1)", "t.sql:1:8: random takes 2 arguments, not 1"),
        ("\\set x randm(1, 2)", "t.sql:1:8: unknown function `randm`: expected one of abs,"),
        ("\\set x 1 +", "t.sql:1:11: expected an expression"),
        ("\\set x 1 2", "t.sql:1:10: expected the end of the line, found `2`"),
        ("\\set x (1", "t.sql:1:10: expected `)`"),
        ("\\set x y", "t.sql:1:8: `y` is not a value: write a variable as `:y`"),
        ("SELECT *\n  FROM t WHERE id = :id;", "t.sql:2:21: unknown variable `id`: set it first with \\set"),
        ("\\set x :y\n", "t.sql:1:8: unknown variable `y`"),
        ("\\set v 1\nSELECT\n 'user:v';", "t.sql:3:2: `:v` inside quotes is not replaced, unlike in pgbench"),
        ("SELECT 'at 12:30:00 :scale';", "t.sql:1:8: `:scale` inside quotes"),
        ("\\set v 1\nSELECT $$ {\"a\":v} $$;", "t.sql:2:8: `:v` inside quotes"),
        ("SELECT a, ':p_a' FROM t \\gset p_\nSELECT :p_a;", "t.sql:1:11: `:p_a` inside quotes"),
        ("SELECT 'abc;", "t.sql:1:9: the quoted text is not closed"),
        ("/* x", "t.sql:1:1: the comment is not closed"),
        ("\\if true\nSELECT 1;", "t.sql:1:1: this \\if is not closed"),
        ("\\endif", "t.sql:1:1: \\endif without \\if"),
        ("\\if 1\n\\else\n\\elif 2\n\\endif", "t.sql:3:1: only \\endif can follow \\else"),
        ("\\sleep 5 hours", "t.sql:1:10: unknown unit `hours`"),
        ("\\setshell x ls", "t.sql:1:1: \\setshell is not supported"),
        ("SELECT 1 \\x", "t.sql:1:10: only \\gset"),
    ] {
        let problem = Scripts::new(&settings(&[script]), 1).err().unwrap();
        assert!(problem.starts_with(says), "{script}\n{problem}\n{says}");
    }
    for (script, says) in [
        ("\\set x 1 / (:scale - 10)\n", "t.sql:1:10: division by zero"),
        ("\\set x 9223372036854775807 + 1\n", "out of the range"),
        ("\\set x random(2, 1)\n", "t.sql:1:8: the range 2 to 1 is empty"),
        ("\\set x random_gaussian(1, 2, 1.5)\n", "it must be at least 2"),
        ("SELECT n FROM t \\gset\nSELECT :m;", "t.sql:2:8: `m` is not set here"),
        ("BEGIN;", "t.sql: the script ends inside a transaction"),
    ] {
        let problem = sent(script, 1).err().unwrap();
        assert!(problem.contains(says), "{script}\n{problem}");
    }
    assert!(Scripts::new(&ScriptSettings::default(), 1).unwrap_err().contains("--script FILE"));
}

#[test]
fn scripts_are_drawn_by_their_weights_and_told_apart() {
    let mut settings = settings(&["SELECT 1;", "UPDATE t SET a = 1;"]);
    settings.files[0].weight = 3;
    let scripts = Scripts::new(&settings, 1).unwrap();
    let names: Vec<_> = scripts.operations().into_iter().map(|o| o.name).collect();
    assert_eq!(names, ["t", "t:1-select", "t-2", "t-2:1-update"]);
    let scripts_on_a_line = Scripts::new(&self::settings(&["SELECT 1; SELECT 2;\n\n"]), 1).unwrap();
    let names: Vec<_> = scripts_on_a_line.operations().into_iter().map(|o| o.name).collect();
    assert_eq!(names, ["t:1-select", "t:1-select-2"]);
    let mut selects = 0;
    let mut laps = Laps::new(Arc::new(Monotonic), &scripts.operations(), Arc::new(AtomicBool::new(false)));
    let work = Work::Script(scripts);
    let mut execution = sql::Execution::of(&work);
    for event in 0..4_000 {
        let mut noted = Noted { texts: work.statements().to_vec(), ..Noted::default() };
        laps.begin(0);
        let mut attempt = Attempt { random: Random::of(1, event), laps: &mut laps };
        sql::run(&mut noted, &work, &mut execution, &mut attempt).unwrap();
        let taken: Vec<_> = laps.taken().iter().map(|(operation, _)| *operation).collect();
        let is_select = noted.sent == ["SELECT 1"];
        assert_eq!(taken, if is_select { [1, 0] } else { [3, 2] });
        selects += u32::from(is_select);
    }
    assert!((2_900..3_100).contains(&selects), "{selects}");
}
