//! Parameters that a script has bound to a statement.

use std::ffi::c_char;

use crate::lua::server::Refused;
use crate::workload::statement::Parameter;

/// Statements with more parameters than this allocate memory for them.
pub(crate) const PARAMETERS_INLINE: usize = 64;

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
pub(crate) fn with_parameters<T>(
    bound: &[Bound],
    work: impl FnOnce(&[Parameter<'_>]) -> Result<T, Refused>,
) -> Result<T, Refused> {
    if bound.len() <= PARAMETERS_INLINE {
        let mut values = [Parameter::Null; PARAMETERS_INLINE];
        for (value, parameter) in values.iter_mut().zip(bound) {
            *value = value_of(*parameter)?;
        }
        return work(&values[..bound.len()]);
    }
    let values: Vec<Parameter<'_>> = bound.iter().map(|p| value_of(*p)).collect::<Result<_, _>>()?;
    work(&values)
}

fn value_of<'a>(parameter: Bound) -> Result<Parameter<'a>, Refused> {
    // SAFETY: the script's statement keeps its parameters, and Lua runs nothing while this call does.
    let head = unsafe { &*parameter };
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
