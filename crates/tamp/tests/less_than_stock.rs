//! Salvage of a damaged file returns at least as many right bytes as `zstd`, `lz4`, `gzip` or `pigz`.
//!
//! `TAMP_DAMAGED` is the number of damages per file; `scripts/prove-tamp` tries 400. The damage is dense
//! where decoders differ most: at the beginning, where references lead to before it, and at the end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the counts are what this test is for")]

#[expect(dead_code, reason = "other tests use the rest")]
mod specimens;

use specimens::{BY_CHANCE, Random, Specimen, common, content, is_refused, specimens};
use std::io::Cursor;
use tamp::{Loss, Lost};

#[test]
fn salvage_yields_no_fewer_right_bytes_than_the_stock_tool() {
    let content = content();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut failures = Vec::new();
    println!("file                                tried  more refused");
    for specimen in specimens(&content) {
        let (tried, mut more, mut refused) = (number("TAMP_DAMAGED").unwrap_or(10), 0, 0);
        for seed in 0..tried {
            match compare(&specimen, &content, seed) {
                Ok(Found::More) => more += 1,
                Ok(Found::Refused) => refused += 1,
                Ok(Found::Same) => {}
                Err(what) => failures.push(what),
            }
        }
        println!("{:34} {tried:>6} {more:>5} {refused:>7}", specimen.name);
        // Only libzstd refuses blocks that an older zstd decodes, and only in few files.
        assert!(refused <= 2 + tried / 20, "{}: {refused}", specimen.name);
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

enum Found {
    Same,
    /// At least 1000 more right bytes than the stock tool.
    More,
    /// The stock `zstd` decodes a block that the linked libzstd refuses.
    Refused,
}

fn compare(specimen: &Specimen, content: &[u8], seed: u64) -> Result<Found, String> {
    let mut file = specimen.file.clone();
    let how = damage(&mut file, &mut Random(seed));
    let mut output = Vec::new();
    let losses = specimen.with.salvage(Cursor::new(&file), &mut output);
    let stock = specimen.with.filter(specimen.stock, &file);
    let mut theirs = right(content, &stock);
    if specimen.stock == "gzip -dcq" {
        theirs -= by_chance(content, &output, &stock, losses.as_deref().unwrap_or_default());
    }
    let ours = right(content, &output);
    if ours + BY_CHANCE >= theirs {
        return Ok(if ours > theirs + 1000 { Found::More } else { Found::Same });
    }
    let is_zst = specimen.stock.starts_with("zstd");
    let (our_beginning, their_beginning) = (common(content, &output), common(content, &stock));
    let is_refused = || is_refused(&file, &specimen.with, our_beginning, their_beginning, &stock);
    if is_zst && (is_refused() || is_whole(losses.as_deref())) {
        return Ok(Found::Refused);
    }
    Err(format!(
        "{}, seed {seed}, {how}: {ours} right bytes, {theirs} by {}: {losses:?}",
        specimen.name, specimen.stock
    ))
}

/// Whether the linked libzstd finds no damage: without a checksum, versions may decode the same damage to
/// different content.
fn is_whole(losses: Result<&[Loss], &tamp::Error>) -> bool {
    losses.is_ok_and(<[Loss]>::is_empty)
}

/// Counts the bytes that gzip has right in a part that is decoded and not proven, and salvage does not. For
/// references to before the beginning of a member, gzip uses earlier content, and salvage zeros.
fn by_chance(content: &[u8], output: &[u8], stock: &[u8], losses: &[Loss]) -> usize {
    let is_unproven = |at: u64| {
        losses.iter().any(|loss| {
            loss.what == Lost::Unproven
                && (loss.content_at..loss.content_at + loss.content_bytes.unwrap_or(0)).contains(&at)
        })
    };
    let bytes = content.iter().zip(output).zip(stock).zip(0..);
    let found = bytes.filter(|&(((content, ours), theirs), at)| {
        *ours == 0 && content == theirs && *content != 0 && is_unproven(at)
    });
    found.count()
}

/// Number of bytes at their right offset.
fn right(content: &[u8], output: &[u8]) -> usize {
    content.iter().zip(output).filter(|(a, b)| a == b).count()
}

/// Damages `file` at one offset; returns a description.
fn damage(file: &mut Vec<u8>, random: &mut Random) -> String {
    let length = file.len();
    let at = match random.below(4) {
        0 => random.below(length.min(300)),
        1 => length - 1 - random.below(length.min(100)),
        _ => random.below(length),
    };
    match random.below(4) {
        0 => {
            file[at] ^= 1 << random.below(8);
            format!("a flipped bit at {at}")
        }
        1 => {
            file[at..length.min(at + 16)].fill(0);
            format!("zeros at {at}")
        }
        2 => {
            file[at..length.min(at + 8)].fill_with(|| random.next().to_le_bytes()[0]);
            format!("noise at {at}")
        }
        _ => {
            file.truncate(at);
            format!("cut at {at}")
        }
    }
}
