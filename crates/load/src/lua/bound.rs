//! Parameters that a script has bound to a statement.

use std::ffi::c_char;

use crate::lua::server::Refused;
use crate::workload::statement::Parameter;

/// Statements with more parameters than this have them in a list, which keeps its memory.
const PARAMETERS_INLINE: usize = 16;

const INTEGER: i32 = 1;
const REAL: i32 = 2;

/// A parameter; its text follows it. Declared in `prelude.lua`.
#[repr(C)]
pub(crate) struct ParameterHead {
    kind: i32,
    max_length: u32,
    length: u32,
    is_null: u32,
    integer: i64,
    real: f64,
    text: [c_char; 0],
}

/// Address of a bound parameter.
pub(crate) type Bound = *const ParameterHead;

/// Calls `work` with the values of the parameters.
///
/// - `room`: an empty list, for statements with many parameters.
pub(crate) fn with_parameters<T>(
    bound: &[Bound],
    room: &mut Vec<Parameter<'static>>,
    work: impl FnOnce(&[Parameter<'_>]) -> Result<T, Refused>,
) -> Result<T, Refused> {
    if bound.len() <= PARAMETERS_INLINE {
        let mut values = [Parameter::Null; PARAMETERS_INLINE];
        for (value, parameter) in values.iter_mut().zip(bound) {
            *value = value_of(*parameter)?;
        }
        return work(&values[..bound.len()]);
    }
    let mut values = emptied(std::mem::take(room));
    let read = bound.iter().try_for_each(|parameter| value_of(*parameter).map(|value| values.push(value)));
    let outcome = read.and_then(|()| work(&values));
    *room = emptied(values);
    outcome
}

/// An empty list with the memory of another one.
fn emptied<'a>(mut values: Vec<Parameter<'_>>) -> Vec<Parameter<'a>> {
    values.clear();
    values.into_iter().map(|_| Parameter::Null).collect()
}

fn value_of<'a>(parameter: Bound) -> Result<Parameter<'a>, Refused> {
    // SAFETY: null, or a parameter that the script's statement keeps; Lua runs nothing while this call does.
    let head = unsafe { parameter.as_ref() };
    let head = head.ok_or_else(|| Refused::unsendable("a parameter is nil"))?;
    Ok(match head.kind {
        _ if head.is_null != 0 => Parameter::Null,
        INTEGER => Parameter::Integer(head.integer),
        REAL => Parameter::Real(head.real),
        _ => {
            let length = head.length.min(head.max_length) as usize;
            // SAFETY: the text has room for `max_length` bytes, and is as old as its head.
            let text =
                unsafe { std::slice::from_raw_parts((&raw const (*parameter).text).cast::<u8>(), length) };
            let text = std::str::from_utf8(text);
            Parameter::Text(text.map_err(|_| Refused::unsendable("a parameter is not UTF-8"))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    fn integer(integer: i64) -> ParameterHead {
        ParameterHead { kind: INTEGER, max_length: 8, length: 0, is_null: 0, integer, real: 0.0, text: [] }
    }

    #[test]
    fn many_parameters_use_the_same_memory_again() {
        let mut room = Vec::new();
        let mut memory = Vec::new();
        for many in [1, PARAMETERS_INLINE, PARAMETERS_INLINE + 1, 1_000, 1_000, 65, 1_000] {
            let heads: Vec<ParameterHead> = (0..many).map(|n| integer(i64::try_from(n).unwrap())).collect();
            let bound: Vec<Bound> = heads.iter().map(ptr::from_ref).collect();
            let sum = with_parameters(&bound, &mut room, |values| {
                let integers = values.iter().map(|value| match value {
                    Parameter::Integer(n) => *n,
                    other => panic!("{other:?}"),
                });
                Ok(integers.sum::<i64>())
            });
            let many = i64::try_from(many).unwrap();
            assert_eq!(sum.unwrap(), many * (many - 1) / 2);
            memory.push((room.capacity(), room.as_ptr()));
            assert!(room.is_empty());
        }
        assert_eq!((memory[0].0, memory[1].0), (0, 0));
        assert!(memory[3].0 >= 1_000 && memory[3..].iter().all(|same| *same == memory[3]), "{memory:?}");
    }
}
