//! Names for the kernel's addresses, including its modules, from `/proc/kallsyms`.

use std::fs;
use std::path::Path;

use record::missing::{Maybe, Missing};

/// Symbols of the kernel, by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    symbols: Vec<Symbol>,
    /// Address ranges of the scheduler's and the locks' code.
    locking: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Symbol {
    address: u64,
    is_code: bool,
    name: String,
}

impl KernelSymbols {
    /// Reads the kernel's list.
    ///
    /// # Errors
    ///
    /// Missing if it may not be read, or shows zeros for addresses.
    pub(crate) fn read(root: &Path) -> Maybe<Self> {
        let text = fs::read_to_string(root.join("proc/kallsyms"))
            .map_err(|e| Missing::because(format!("/proc/kallsyms cannot be read: {e}")))?;
        Self::parse(&text).ok_or_else(|| {
            Missing::because(
                "/proc/kallsyms shows no addresses: it needs root, or kernel.kptr_restrict=0 and CAP_SYSLOG",
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut symbols: Vec<Symbol> = text.lines().filter_map(symbol).collect();
        symbols.sort_by_key(|s| s.address);
        let at = |name: &str| symbols.iter().find(|s| s.name == name).map(|s| s.address);
        let between = |part: &str| Some((at(&format!("__{part}_start"))?, at(&format!("__{part}_end"))?));
        let locking = ["sched_text", "lock_text"].into_iter().filter_map(between).collect();
        (!symbols.is_empty()).then_some(Self { symbols, locking })
    }

    /// The function that holds the address, as far as this list, which lacks sizes, can show.
    ///
    /// Code behind the last function of a module may belong to a module that was loaded since, though never
    /// on the same page.
    pub(crate) fn function(&self, address: u64) -> Option<&str> {
        const PAGE: u64 = 4096;
        let symbol = self.at_or_before(address).filter(|s| s.is_code && s.name != "_etext")?;
        let next = self.symbols.get(self.symbols.partition_point(|s| s.address <= address))?;
        let is_last = module(&next.name) != module(&symbol.name);
        (!is_last || address / PAGE == symbol.address / PAGE).then_some(symbol.name.as_str())
    }

    /// The variable that holds the address, and the offset in it: `tasklist_lock`, `init_mm+0x70`.
    pub(crate) fn variable(&self, address: u64) -> Option<String> {
        /// Maximum offset: static structures that hold a lock are hardly larger.
        const OFFSET_MAX: u64 = 64 * 1024;
        let symbol = self.at_or_before(address).filter(|s| !s.is_code)?;
        // Kernels without names of variables still have those of the linker's edges.
        let is_edge = ["__start_", "__stop_", "__end_", "_edata", "_end", "__bss_"]
            .iter()
            .any(|edge| symbol.name.starts_with(edge));
        let offset = address - symbol.address;
        match offset {
            _ if is_edge || offset > OFFSET_MAX => None,
            0 => Some(symbol.name.clone()),
            _ => Some(format!("{}+{offset:#x}", symbol.name)),
        }
    }

    /// Call path to a lock, the caller first, without the tracing functions and the locking functions.
    pub(crate) fn callers(&self, frames: &[u64]) -> Vec<String> {
        let named: Vec<(u64, Option<&str>)> = frames.iter().map(|a| (*a, self.function(*a))).collect();
        let traced = named.iter().rposition(|(_, name)| name.is_some_and(is_tracing)).map_or(0, |i| i + 1);
        let outside = named[traced..].iter().skip_while(|(address, name)| {
            name.is_none_or(is_locking) || self.locking.iter().any(|(from, to)| (from..to).contains(&address))
        });
        outside.map(|(address, name)| name.map_or_else(|| format!("{address:#x}"), str::to_owned)).collect()
    }

    /// The functions of a stack, innermost first: the first address is the current one, the others are return
    /// addresses.
    pub(crate) fn stack(&self, frames: &[u64]) -> Vec<Option<&str>> {
        let name = |(depth, address): (usize, &u64)| match depth {
            0 => self.function(*address),
            _ => self.function(address.saturating_sub(1)),
        };
        frames.iter().enumerate().map(name).collect()
    }

    /// Variant of [`Self::stack`] at a context switch, without the tracing functions and the scheduler's
    /// innermost ones.
    pub(crate) fn stack_of_switch(&self, frames: &[u64]) -> Vec<Option<&str>> {
        let named = self.stack(frames);
        let is_below = |name: Option<&str>| {
            name.is_some_and(|name| is_tracing(name) || matches!(name, "__schedule" | "schedule"))
        };
        let below = named.iter().rposition(|name| is_below(*name)).map_or(0, |last| last + 1);
        // If the stack is nothing but scheduling, the outermost function remains.
        named[below.min(named.len().saturating_sub(1))..].to_vec()
    }

    fn at_or_before(&self, address: u64) -> Option<&Symbol> {
        let after = self.symbols.partition_point(|s| s.address <= address);
        // Beyond the last symbol nothing is known; if several share an address, the first in the list wins.
        let last = &self.symbols[..after].last()?;
        (after < self.symbols.len()).then(|| {
            let first = self.symbols[..after].partition_point(|s| s.address < last.address);
            &self.symbols[first]
        })
    }
}

/// `ffffffff81000000 T _stext`, and after a tab `[nf_tables]` if it belongs to a module.
fn symbol(line: &str) -> Option<Symbol> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    let is_code = matches!(kind, "t" | "T" | "w" | "W" | "i");
    // Per-CPU variables are offsets; `__pfx_` is the padding before each function.
    if address < 1 << 32 || kind == "a" || kind == "A" || name.starts_with("__pfx_") {
        return None;
    }
    let name = words.next().map_or_else(|| name.to_owned(), |module| format!("{name} {module}"));
    Some(Symbol { address, is_code, name })
}

/// `[nf_tables]` of `nft_commit [nf_tables]`.
fn module(name: &str) -> Option<&str> {
    name.split_once(' ').map(|(_, module)| module)
}

fn is_tracing(name: &str) -> bool {
    const STARTS: [&str; 4] = ["bpf_trace_run", "bpf_prog_", "__traceiter_", "__bpf_trace_"];
    name.contains("contention_begin") || STARTS.iter().any(|start| name.starts_with(start))
}

/// Locking functions outside of the ranges of `locking`.
fn is_locking(name: &str) -> bool {
    const STARTS: [&str; 16] = [
        "_raw_",
        "__raw_",
        "do_raw_",
        "queued_",
        "native_queued_",
        "__pv_queued_",
        "mutex_",
        "__mutex_",
        "ww_mutex_",
        "rwsem_",
        "down_",
        "__down",
        "rt_mutex_",
        "__rt_mutex_",
        "percpu_",
        "__percpu_",
    ];
    name == "down" || name.ends_with("_slowpath") || STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000012340 A __per_cpu_thing
ffffffff81000000 T _stext
ffffffff81000010 t vfs_write
ffffffff81000100 t __pfx_ext4_write
ffffffff81000110 t ext4_write
ffffffff81000200 T __traceiter_contention_begin
ffffffff81000300 T __sched_text_start
ffffffff81000300 t rwsem_down_write_slowpath
ffffffff81000400 T __sched_text_end
ffffffff81000410 T down_write
ffffffff82000000 D tasklist_lock
ffffffff82000010 D init_mm
ffffffff82100000 D __start_once
ffffffffa0000000 t nft_commit\t[nf_tables]
ffffffffa0001000 t nft_exit\t[nf_tables]
ffffffffa0009000 t last\t[xt_tcp]
";

    #[test]
    fn the_caller_is_the_first_function_that_is_not_there_for_locking() {
        let symbols = KernelSymbols::parse(TEXT).unwrap();
        let frames = [
            0xffff_ffff_c000_0000,
            0xffff_ffff_8100_0205,
            0xffff_ffff_8100_0350,
            0xffff_ffff_8100_0415,
            0xffff_ffff_8100_0115,
            0xffff_ffff_8100_0020,
        ];
        assert_eq!(symbols.callers(&frames), ["ext4_write", "vfs_write"]);
        assert_eq!(symbols.callers(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_static_lock_has_a_name_and_an_allocated_one_has_none() {
        let symbols = KernelSymbols::parse(TEXT).unwrap();
        let names =
            [0xffff_ffff_8200_0000, 0xffff_ffff_8200_0080, 0xffff_ffff_8210_0008, 0xffff_8880_0000_0000]
                .map(|a| symbols.variable(a));
        assert_eq!(names, [Some("tasklist_lock".into()), Some("init_mm+0x70".into()), None, None]);
        assert_eq!(symbols.function(0xffff_ffff_a000_0010), Some("nft_commit [nf_tables]"));
    }

    #[test]
    fn what_lies_behind_the_last_function_of_a_module_is_not_of_that_function() {
        let symbols = KernelSymbols::parse(TEXT).unwrap();
        let names =
            [0xffff_ffff_a000_0ff0, 0xffff_ffff_a000_1ff0, 0xffff_ffff_a000_2000, 0xffff_ffff_a000_9010]
                .map(|a| symbols.function(a));
        assert_eq!(names, [Some("nft_commit [nf_tables]"), Some("nft_exit [nf_tables]"), None, None]);
    }

    #[test]
    fn a_list_without_addresses_is_missing() {
        assert!(KernelSymbols::parse("0000000000000000 T _stext\n0000000000000000 t vfs_write\n").is_none());
        assert!(KernelSymbols::parse("").is_none());
    }
}
