//! Output of the stock decoders: libzstd, liblz4 and zlib.

use std::io::Read;

const ZST: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
pub(crate) const LZ4: [u8; 4] = 0x184D_2204_u32.to_le_bytes();

/// Decodes `file` up to `bytes_max`; `None` if its decoder refuses it, or if it holds several formats.
pub(crate) fn decode(file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    match file {
        [0x1f, 0x8b, ..] => gzip(file, bytes_max),
        _ if file.starts_with(&LZ4) => lz4(file, bytes_max),
        _ if file.starts_with(&ZST) || is_skippable(file) => zst(file, bytes_max),
        _ => zlib(file, bytes_max),
    }
}

fn is_skippable(file: &[u8]) -> bool {
    matches!(file, [first, 0x2a, 0x4d, 0x18, ..] if first >> 4 == 5)
}

fn zst(file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut content = vec![0; bytes_max];
    let bytes = zstd_safe::DCtx::create().decompress(&mut content[..], file).ok()?;
    content.truncate(bytes);
    Some(content)
}

fn lz4(mut file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    while file.starts_with(&LZ4) {
        let mut decoder = lz4::Decoder::new(file).ok()?;
        decoder.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut content).ok()?;
        let (rest, ended) = decoder.finish();
        ended.ok()?;
        file = rest;
    }
    file.is_empty().then_some(content)
}

/// Decodes the members, and skips the zeros between and behind them.
fn gzip(mut file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    while !file.is_empty() {
        let mut decoder = flate2::bufread::GzDecoder::new(file);
        decoder.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut content).ok()?;
        file = decoder.into_inner();
        let zeros = file.iter().take_while(|&&byte| byte == 0).count();
        file = &file[zeros..];
    }
    Some(content)
}

fn zlib(file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut decoder = flate2::bufread::ZlibDecoder::new(file);
    decoder.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut content).ok()?;
    let rest = decoder.into_inner();
    rest.iter().all(|&byte| byte == 0).then_some(content)
}
