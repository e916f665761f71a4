//! Files of all formats and of stock tools, to be damaged.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tamp::{
    Dictionary, Error, Format, FrameOptions, Level, Loss, Meter, Options, Places, ReadOptions, Writer,
};

/// splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

/// Returns the output of `decompress_file`; `None` if it leaves the file to the reader.
pub(crate) fn decompressed_file(input: &File, options: &ReadOptions) -> Result<Option<Vec<u8>>, Error> {
    let output = tempfile::tempfile().unwrap();
    let input_bytes = input.metadata().unwrap().len();
    let places =
        Places { input, input_at: 0, input_bytes, output: Some(&output), output_at: 0, sparse: false };
    let Some(bytes) = tamp::decompress_file(&places, options, &Meter::new(), &|| {})? else {
        return Ok(None);
    };
    let mut written = vec![0; usize::try_from(bytes).unwrap()];
    output.read_exact_at(&mut written, 0).unwrap();
    Ok(Some(written))
}

/// Returns text, then noise, then compressed files of all kinds, then text.
pub(crate) fn content() -> Vec<u8> {
    let mut random = Random(1);
    let mut text = |lines: u32, mark: char| -> Vec<u8> {
        (0..lines).flat_map(|n| format!("{mark}{n:>6} {:x}\n", random.next() % 4096).into_bytes()).collect()
    };
    let (first, inner, last) = (text(12_000, 'a'), text(9000, 'i'), text(12_000, 'z'));
    let mut content = first;
    let mut random = Random(2);
    content.extend((0..60_000).map(|_| random.next().to_le_bytes()[0]));
    for format in [Format::Zst, Format::Lz4, Format::Bgzf] {
        content.extend(packed(&inner, format, 16 << 10));
    }
    content.extend(last);
    content
}

pub(crate) fn packed(content: &[u8], format: Format, block_bytes: usize) -> Vec<u8> {
    packed_with(None, content, format, block_bytes)
}

fn packed_with(
    dictionary: Option<Dictionary>,
    content: &[u8],
    format: Format,
    block_bytes: usize,
) -> Vec<u8> {
    let mut options = Options::of(format, Level::USUAL);
    options.threads = 1;
    options.block_bytes = if format == Format::Lz4 { 64 << 10 } else { block_bytes };
    options.content_bytes = Some(content.len() as u64);
    options.dictionary = dictionary;
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// Returns the output of `command` for `input`, whatever its exit code; `None` if it is not installed.
pub(crate) fn filter(command: &str, input: &[u8]) -> Option<Vec<u8>> {
    let mut words = command.split(' ');
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        output
    });
    child.wait().unwrap();
    Some(output)
}

/// A file to damage.
pub(crate) struct Specimen {
    pub(crate) name: &'static str,
    pub(crate) file: Vec<u8>,
    /// Stock tool that reads it.
    pub(crate) stock: &'static str,
    /// Whether its checksums cover the number and the order of blocks.
    pub(crate) is_proven: bool,
    pub(crate) with: With,
}

/// Options for reading a file.
#[derive(Clone, Default)]
pub(crate) struct With {
    pub(crate) dictionary: Option<Dictionary>,
    pub(crate) reference: Option<Arc<[u8]>>,
    /// Options for both `tamp` and `zstd`.
    pub(crate) arguments: Vec<String>,
    /// Folder of the files that these options name.
    folder: Option<Arc<tempfile::TempDir>>,
}

impl With {
    fn dictionary(bytes: &'static [u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dictionary");
        std::fs::write(&path, bytes).unwrap();
        Self {
            dictionary: Some(Dictionary::new(bytes).unwrap()),
            reference: None,
            arguments: vec!["-D".into(), path.display().to_string()],
            folder: Some(Arc::new(folder)),
        }
    }

    fn reference(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reference");
        std::fs::write(&path, bytes).unwrap();
        Self {
            dictionary: None,
            reference: Some(bytes.into()),
            arguments: vec![format!("--patch-from={}", path.display())],
            folder: Some(Arc::new(folder)),
        }
    }

    pub(crate) fn options(&self, threads: usize) -> ReadOptions {
        let mut options = ReadOptions::new(threads);
        options.dictionary.clone_from(&self.dictionary);
        options
    }

    pub(crate) fn salvage(&self, source: impl Read + Seek, out: &mut Vec<u8>) -> Result<Vec<Loss>, Error> {
        match &self.reference {
            Some(reference) => tamp::salvage_frame(source, reference, &self.options(1), out),
            None => tamp::salvage(source, &self.options(1), out),
        }
    }

    /// Returns the stock tool's output for `file`.
    pub(crate) fn filter(&self, stock: &str, file: &[u8]) -> Vec<u8> {
        let line = [&[stock.to_owned()], &self.arguments[..]].concat().join(" ");
        filter(&line, file).unwrap_or_default()
    }

    /// Compresses `content` to one frame.
    fn one_frame(&self, content: &[u8]) -> Vec<u8> {
        let (mut options, mut file) = (FrameOptions::new(Level::USUAL), Vec::new());
        options.reference.clone_from(&self.reference);
        options.content_bytes = Some(content.len() as u64);
        tamp::compress_frame(&mut &content[..], &mut file, &options, &Meter::new(), &mut || {}).unwrap();
        file
    }
}

pub(crate) fn specimens(content: &[u8]) -> Vec<Specimen> {
    let own = |format| packed(content, format, 48 << 10);
    let (zst, lz4, bgzf) = (own(Format::Zst), own(Format::Lz4), own(Format::Bgzf));
    let plain =
        |name, file, stock, is_proven| Specimen { name, file, stock, is_proven, with: With::default() };
    let mut found = vec![
        plain("tamp --zst", zst, "zstd -dcq", true),
        plain("tamp --lz4", lz4, "lz4 -dcq", false),
        plain("tamp --bgzf", bgzf, "gzip -dcq", false),
    ];
    for (name, stock, is_proven) in [
        ("zstd -qc", "zstd -dcq", true),
        ("zstd -qc --no-check", "zstd -dcq", false),
        ("zstd -qc -B65536 --single-thread", "zstd -dcq", true),
        ("pzstd -qc -p 2", "zstd -dcq", false),
        ("lz4 -qc", "lz4 -dcq", true),
        ("lz4 -qc -B4 -BX", "lz4 -dcq", true),
        ("lz4 -qc -BD -B4", "lz4 -dcq", true),
        ("lz4 -qc -BD -B4 -BX", "lz4 -dcq", true),
        ("lz4 -qc -BD -B4 -9 --no-frame-crc", "lz4 -dcq", false),
        ("lz4 -qc --no-frame-crc", "lz4 -dcq", false),
        ("lz4 -qcl", "lz4 -dcq", false),
        ("gzip -c", "gzip -dcq", true),
        ("gzip -1c", "gzip -dcq", true),
        ("pigz -ci", "gzip -dcq", true),
        ("bgzip -c", "gzip -dcq", false),
        ("pigz -cz", "pigz -dcq", true),
    ] {
        match filter(name, content).filter(|file| !file.is_empty()) {
            Some(file) => found.push(plain(name, file, stock, is_proven)),
            None => println!("skipped: {name}: not installed"),
        }
    }
    let halves = content.split_at(content.len() / 2);
    let stock = |command, content: &[u8]| filter(command, content).unwrap_or_default();
    let rows = [
        (
            "tamp, then zstd",
            [packed(halves.0, Format::Zst, 16 << 10), stock("zstd -qc", halves.1)],
            "zstd -dcq",
        ),
        ("bgzip, then gzip", [stock("bgzip -c", halves.0), stock("gzip -c", halves.1)], "gzip -dcq"),
        (
            "tamp twice",
            [packed(halves.0, Format::Zst, 16 << 10), packed(halves.1, Format::Zst, 32 << 10)],
            "zstd -dcq",
        ),
    ];
    for (name, parts, stock) in rows {
        if parts.iter().all(|part| !part.is_empty()) {
            found.push(plain(name, parts.concat(), stock, false));
        }
    }
    found.extend(with_references(content));
    found
}

/// Files that refer far back, to a dictionary, or to another file.
fn with_references(content: &[u8]) -> Vec<Specimen> {
    let dictionary = With::dictionary(include_bytes!("../../testdata/formats/dictionary"));
    let mut random = Random(3);
    let noise: Vec<u8> = (0..50_000).map(|_| random.next().to_le_bytes()[0]).collect();
    let reference = With::reference(&[&noise, &content[..content.len() * 2 / 3]].concat());
    let halves = content.split_at(content.len() / 2);
    let own = packed_with(dictionary.dictionary.clone(), content, Format::Zst, 48 << 10);
    let patch = reference.one_frame(content);
    let patches = [reference.one_frame(halves.0), reference.one_frame(halves.1)].concat();
    let specimen = |name, file, is_proven, with: &With| {
        let stock = "zstd -dcq";
        Specimen { name, file, stock, is_proven, with: with.clone() }
    };
    let mut found = vec![
        specimen("tamp --long", With::default().one_frame(content), true, &With::default()),
        specimen("tamp -D", own, true, &dictionary),
        specimen("tamp --patch-from", patch, true, &reference),
        specimen("tamp --patch-from, twice", patches, false, &reference),
    ];
    let stream = format!("zstd -qc --stream-size={}", content.len());
    for (name, command, with) in [
        ("zstd --long", "zstd -qc --long=24", &With::default()),
        ("zstd -D", "zstd -qc", &dictionary),
        ("zstd --patch-from", &*stream, &reference),
    ] {
        let file = with.filter(command, content);
        if !file.is_empty() {
            found.push(specimen(name, file, true, with));
        }
    }
    found
}

/// For references to before the beginning of a member, gzip uses earlier content, and salvage zeros. A few
/// bytes may be right by chance.
pub(crate) const BY_CHANCE: usize = 16;

/// Length of the common beginning.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Maximum content of a block.
const ZSTD_BLOCK_BYTES: usize = 128 << 10;

/// Returns the size of the content before the block that the linked libzstd refuses; `None` if it refuses
/// none.
fn linked_zstd(file: &[u8], with: &With) -> Option<usize> {
    let dictionary = with.folder.as_ref().filter(|_| with.dictionary.is_some());
    let dictionary = dictionary.map(|folder| std::fs::read(folder.path().join("dictionary")).unwrap());
    let (mut context, mut room) = (zstd_safe::DCtx::create(), vec![0; ZSTD_BLOCK_BYTES]);
    if let Some(dictionary) = &dictionary {
        context.load_dictionary(dictionary).unwrap();
    }
    let reference = with.reference.as_deref();
    reference.map(|reference| context.ref_prefix(reference).unwrap());
    let (mut at, mut step, mut made) = (0, 1, 0);
    while at < file.len() {
        // One block at a time, as the decoder asks: a failing call must not include an intact block.
        let mut input = zstd_safe::InBuffer::around(&file[at..file.len().min(at + step)]);
        let mut output = zstd_safe::OutBuffer::around(&mut room[..]);
        let Ok(wanted) = context.decompress_stream(&mut output, &mut input) else { return Some(made) };
        (at, made, step) = (at + input.pos(), made + output.pos(), wanted.max(1));
        if wanted == 0 {
            // A reference applies to one frame only.
            reference.map(|reference| context.ref_prefix(reference).unwrap());
        }
    }
    None
}

/// Whether salvage may return less than the stock `zstd`: an older `zstd` may decode a damaged block that the
/// linked libzstd refuses. Salvage then returns at least everything before that block. The older `zstd` is
/// wrong inside it, or it ignores the flipped bit, and its output is right.
pub(crate) fn is_refused(file: &[u8], with: &With, ours: usize, theirs: usize, stock: &[u8]) -> bool {
    let goes_wrong = |made: usize| (made..made + ZSTD_BLOCK_BYTES).contains(&theirs) && theirs < stock.len();
    let is_right = theirs == stock.len();
    linked_zstd(file, with).is_some_and(|made| ours >= made && (goes_wrong(made) || is_right))
}
