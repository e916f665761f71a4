//! The expressions of `\set` and `\if`: pgbench's, with its operators, precedences and random functions.
//!
//! # Source
//!
//! <https://www.postgresql.org/docs/current/pgbench.html>, "Built-In Operators" and "Built-In Functions".

use super::position::{Problem, SourcePosition};
use super::value::Value;
use crate::schedule::random::Random;
use crate::workload::rows::zipfian;

/// An expression; variables are slots.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Value(Value),
    Variable {
        slot: usize,
        at: SourcePosition,
    },
    Call {
        function: Function,
        arguments: Vec<Expression>,
        at: SourcePosition,
    },
    /// Conditions with their results, and the result if no condition is true.
    Case {
        arms: Vec<(Expression, Expression)>,
        otherwise: Option<Box<Expression>>,
    },
}

/// Operators and functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Or,
    And,
    Not,
    IsNull,
    IsTrue,
    IsFalse,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    BitNot,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Abs,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// Functions by name, with their smallest and largest number of arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 19] = [
    ("abs", Function::Abs, 1, 1),
    ("double", Function::Double, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("greatest", Function::Greatest, 1, usize::MAX),
    ("hash", Function::HashMurmur2, 1, 2),
    ("hash_fnv1a", Function::HashFnv1a, 1, 2),
    ("hash_murmur2", Function::HashMurmur2, 1, 2),
    ("int", Function::Int, 1, 1),
    ("least", Function::Least, 1, usize::MAX),
    ("ln", Function::Ln, 1, 1),
    ("mod", Function::Remainder, 2, 2),
    ("pi", Function::Pi, 0, 0),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("random", Function::Random, 2, 2),
    ("random_exponential", Function::RandomExponential, 3, 3),
    ("random_gaussian", Function::RandomGaussian, 3, 3),
    ("random_zipfian", Function::RandomZipfian, 3, 3),
    ("sqrt", Function::Sqrt, 1, 1),
];

impl Function {
    /// The function of that name, if it accepts that many arguments.
    pub(super) fn named(name: &str, arguments: usize, at: SourcePosition) -> Result<Self, Problem> {
        let Some((_, function, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let known: Vec<_> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            return Err(
                at.problem(format!("unknown function `{name}`: expected one of {}", known.join(", ")))
            );
        };
        if (*least..=*most).contains(&arguments) {
            return Ok(*function);
        }
        let wanted = match (*least, *most) {
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} or {most}"),
        };
        Err(at.problem(format!("{name} takes {wanted} arguments, not {arguments}")))
    }
}

/// Inputs of an evaluation.
pub(super) struct Scene<'a> {
    /// Values by slot; `None` if not set yet.
    pub(super) variables: &'a [Option<Value>],
    /// Names of the variables, by slot.
    pub(super) names: &'a [String],
    pub(super) random: &'a mut Random,
    /// Seed of hash functions that are called without one.
    pub(super) seed: u64,
}

impl Expression {
    /// Evaluates the expression in an event.
    pub(super) fn value(&self, scene: &mut Scene<'_>) -> Result<Value, Problem> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Variable { slot, at } => scene.variables[*slot]
                .clone()
                .ok_or_else(|| at.problem(format!("`{}` is not set here", scene.names[*slot]))),
            Self::Case { arms, otherwise } => {
                for (condition, result) in arms {
                    if condition.is_true(scene)? {
                        return result.value(scene);
                    }
                }
                otherwise.as_ref().map_or(Ok(Value::Null), |result| result.value(scene))
            }
            Self::Call { function, arguments, at } => call(*function, arguments, *at, scene),
        }
    }

    /// Whether it is true: neither false, nor 0, nor NULL.
    pub(super) fn is_true(&self, scene: &mut Scene<'_>) -> Result<bool, Problem> {
        let at = self.place();
        let value = self.value(scene)?;
        if value == Value::Null { Ok(false) } else { value.boolean(at) }
    }

    /// Calls `show` for each variable that it reads.
    pub(super) fn each_variable<E>(
        &self,
        show: &mut impl FnMut(SourcePosition, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Value(_) => Ok(()),
            Self::Variable { slot, at } => show(*at, *slot),
            Self::Call { arguments, .. } => arguments.iter().try_for_each(|a| a.each_variable(show)),
            Self::Case { arms, otherwise } => {
                for (condition, result) in arms {
                    condition.each_variable(show)?;
                    result.each_variable(show)?;
                }
                otherwise.as_ref().map_or(Ok(()), |e| e.each_variable(show))
            }
        }
    }

    fn place(&self) -> SourcePosition {
        match self {
            Self::Variable { at, .. } | Self::Call { at, .. } => *at,
            Self::Case { arms, .. } => {
                arms.first().map_or(SourcePosition::START, |(condition, _)| condition.place())
            }
            Self::Value(_) => SourcePosition::START,
        }
    }
}

fn call(
    function: Function,
    arguments: &[Expression],
    at: SourcePosition,
    scene: &mut Scene<'_>,
) -> Result<Value, Problem> {
    // The second operand of these is not evaluated if the first decides.
    if let (Function::And | Function::Or, [left, right]) = (function, arguments) {
        let decides = function == Function::Or;
        for operand in [left, right] {
            match operand.value(scene)? {
                // In pgbench, NULL OR TRUE is NULL.
                Value::Null => return Ok(Value::Null),
                value if value.boolean(at)? == decides => return Ok(Value::Boolean(decides)),
                _ => {}
            }
        }
        return Ok(Value::Boolean(!decides));
    }
    // No function but greatest and least takes more than three.
    let mut room = [Value::Null, Value::Null, Value::Null];
    if let (Function::Greatest | Function::Least, [first, rest @ ..]) = (function, arguments) {
        let mut best = first.value(scene)?.number(at)?;
        for other in rest {
            let other = other.value(scene)?.number(at)?;
            let is_better = if function == Function::Greatest {
                less(&best, &other, at)?
            } else {
                less(&other, &best, at)?
            };
            best = if is_better { other } else { best };
        }
        return Ok(best);
    }
    for (value, argument) in room.iter_mut().zip(arguments) {
        *value = argument.value(scene)?;
    }
    let values = &room[..arguments.len()];
    match function {
        Function::IsNull => return Ok(Value::Boolean(values[0] == Value::Null)),
        Function::IsTrue | Function::IsFalse => {
            return Ok(Value::Boolean(is_boolean(&values[0], function == Function::IsTrue, at)));
        }
        _ if values.contains(&Value::Null) => return Ok(Value::Null),
        _ => {}
    }
    if let Some(drawn) = draw(function, values, at, scene.random)? {
        return Ok(Value::Integer(drawn));
    }
    compute(function, values, at, scene.seed)
}

/// Whether a value is a boolean and this one; in pgbench, no number is TRUE.
fn is_boolean(value: &Value, wanted: bool, at: SourcePosition) -> bool {
    let is_number = value.number(at).is_ok();
    !is_number && *value != Value::Null && value.boolean(at).is_ok_and(|found| found == wanted)
}

/// Evaluates the functions that are not random.
fn compute(function: Function, values: &[Value], at: SourcePosition, seed: u64) -> Result<Value, Problem> {
    use Value::{Boolean, Integer, Real};
    let integer = |n: usize| values[n].integer(at);
    let real = |n: usize| values[n].real(at);
    let out_of_range = || at.problem("the result is out of the range of 64-bit integers".to_owned());
    Ok(match function {
        Function::Not => Boolean(!values[0].boolean(at)?),
        Function::Equal => Boolean(values[0].equals(&values[1], at)?),
        Function::Unequal => Boolean(!values[0].equals(&values[1], at)?),
        Function::Less => Boolean(less(&values[0], &values[1], at)?),
        Function::LessOrEqual => Boolean(!less(&values[1], &values[0], at)?),
        Function::BitOr => Integer(integer(0)? | integer(1)?),
        Function::BitXor => Integer(integer(0)? ^ integer(1)?),
        Function::BitAnd => Integer(integer(0)? & integer(1)?),
        Function::BitNot => Integer(!integer(0)?),
        Function::ShiftLeft | Function::ShiftRight => {
            let count = u32::try_from(integer(1)?).ok().filter(|count| *count < i64::BITS);
            let count = count.ok_or_else(|| at.problem("a shift must be by 0 to 63 bits".to_owned()))?;
            let left = function == Function::ShiftLeft;
            Integer(if left { integer(0)? << count } else { integer(0)? >> count })
        }
        // An operation on integers, also for other numbers.
        Function::Remainder => {
            return arithmetic(function, &Integer(integer(0)?), &Integer(integer(1)?), at);
        }
        Function::Add | Function::Subtract | Function::Multiply | Function::Divide => {
            return arithmetic(function, &values[0].number(at)?, &values[1].number(at)?, at);
        }
        Function::Abs => match values[0].number(at)? {
            Integer(n) => Integer(n.checked_abs().ok_or_else(out_of_range)?),
            _ => Real(real(0)?.abs()),
        },
        Function::Double => Real(real(0)?),
        Function::Int => Integer(integer(0)?),
        Function::Exp => Real(real(0)?.exp()),
        Function::Ln => Real(real(0)?.ln()),
        Function::Sqrt => Real(real(0)?.sqrt()),
        Function::Pi => Real(std::f64::consts::PI),
        Function::Power => Real(real(0)?.powf(real(1)?)),
        Function::HashFnv1a | Function::HashMurmur2 => {
            let seed = if values.len() > 1 { integer(1)?.cast_unsigned() } else { seed };
            let hash = if function == Function::HashFnv1a { fnv1a } else { murmur2 };
            Integer(hash(integer(0)?.cast_unsigned(), seed).cast_signed())
        }
        _ => unreachable!("the callers did the others"),
    })
}

fn less(a: &Value, b: &Value, at: SourcePosition) -> Result<bool, Problem> {
    Ok(match (a.number(at)?, b.number(at)?) {
        (Value::Integer(a), Value::Integer(b)) => a < b,
        (a, b) => a.real(at)? < b.real(at)?,
    })
}

fn arithmetic(function: Function, a: &Value, b: &Value, at: SourcePosition) -> Result<Value, Problem> {
    let by_zero = || at.problem("division by zero".to_owned());
    if let (Value::Integer(a), Value::Integer(b)) = (a, b) {
        let result = match function {
            Function::Add => a.checked_add(*b),
            Function::Subtract => a.checked_sub(*b),
            Function::Multiply => a.checked_mul(*b),
            _ if *b == 0 => return Err(by_zero()),
            Function::Divide => a.checked_div(*b),
            // The smallest number modulo -1 is 0, although the CPU's division overflows.
            _ => Some(a.wrapping_rem(*b)),
        };
        let result =
            result.ok_or_else(|| at.problem("the result is out of the range of 64-bit integers".to_owned()));
        return Ok(Value::Integer(result?));
    }
    let (a, b) = (a.real(at)?, b.real(at)?);
    Ok(Value::Real(match function {
        Function::Add => a + b,
        Function::Subtract => a - b,
        Function::Multiply => a * b,
        _ if b == 0.0 => return Err(by_zero()),
        _ => a / b,
    }))
}

/// A random integer between two bounds, both included; `None` for a function that is not random.
fn draw(
    function: Function,
    values: &[Value],
    at: SourcePosition,
    random: &mut Random,
) -> Result<Option<i64>, Problem> {
    if !matches!(
        function,
        Function::Random | Function::RandomExponential | Function::RandomGaussian | Function::RandomZipfian
    ) {
        return Ok(None);
    }
    let (from, to) = (values[0].integer(at)?, values[1].integer(at)?);
    if from > to {
        return Err(at.problem(format!("the range {from} to {to} is empty")));
    }
    let width = to.checked_sub(from).and_then(|w| w.checked_add(1));
    let width =
        width.ok_or_else(|| at.problem(format!("the range {from} to {to} is too wide")))?.cast_unsigned();
    let parameter = values.get(2).map_or(Ok(0.0), |v| v.real(at))?;
    let offset = match function {
        Function::RandomExponential if parameter <= 0.0 => {
            return Err(at.problem(format!("the parameter is {parameter}: it must be over 0")));
        }
        Function::RandomGaussian if parameter < 2.0 => {
            return Err(at.problem(format!("the parameter is {parameter}: it must be at least 2")));
        }
        Function::RandomZipfian if !(parameter > 0.0 && parameter <= 1_000.0) => {
            return Err(
                at.problem(format!("the parameter is {parameter}: it must be over 0 and at most 1000"))
            );
        }
        Function::Random => random.below(width),
        Function::RandomExponential => share(width, exponential(parameter, random)),
        Function::RandomGaussian => share(width, gaussian(parameter, random)),
        _ => zipfian(width, parameter, random) - 1,
    };
    Ok(Some(from + offset.cast_signed()))
}

/// The offset into a range for a number in [0, 1).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the width")]
fn share(width: u64, unit: f64) -> u64 {
    ((width as f64 * unit) as u64).min(width - 1)
}

/// Exponential distribution over [0, 1), truncated where its tail has a weight of e^-parameter.
fn exponential(parameter: f64, random: &mut Random) -> f64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - random.unit();
    -(cut + (1.0 - cut) * uniform).ln() / parameter
}

/// Normal distribution over [0, 1) around its middle, truncated at `parameter` standard deviations.
fn gaussian(parameter: f64, random: &mut Random) -> f64 {
    loop {
        // The Box-Muller transform.
        let (first, second) = (1.0 - random.unit(), 1.0 - random.unit());
        let deviation = (-2.0 * first.ln()).sqrt() * (2.0 * std::f64::consts::PI * second).sin();
        if (-parameter..parameter).contains(&deviation) {
            return (deviation + parameter) / (2.0 * parameter);
        }
    }
}

/// Fowler, Noll and Vo's hash of the eight bytes of a number, the lowest first.
fn fnv1a(number: u64, seed: u64) -> u64 {
    let hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    number
        .to_le_bytes()
        .iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Austin Appleby's `MurmurHash2`, the 64-bit form, of the eight bytes of a number.
fn murmur2(number: u64, seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let mix = |x: u64| x ^ (x >> 47);
    let block = mix(number.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    let hash = (seed ^ FACTOR.wrapping_mul(8) ^ block).wrapping_mul(FACTOR);
    mix(mix(hash).wrapping_mul(FACTOR))
}
