//! Names of threads, as the kernel cuts them.

/// The name of a task, as the kernel keeps it.
pub(crate) fn text(comm: &[i8]) -> String {
    let bytes: Vec<u8> = comm.iter().map(|c| c.cast_unsigned()).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name of threads for our programs, cut as the kernel cuts it: the last byte stays 0. Empty: everyone's.
pub(crate) fn comm(name: Option<&str>) -> [i8; 16] {
    let mut comm = [0; 16];
    for (to, from) in comm[..15].iter_mut().zip(name.unwrap_or_default().bytes()) {
        *to = from.cast_signed();
    }
    comm
}
