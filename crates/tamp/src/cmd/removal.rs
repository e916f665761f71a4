//! Removal of an input after its successor is on disk.

use super::input::Input;
use anyhow::Context;
use std::os::unix::fs::MetadataExt as _;

/// Removes the input after the output is complete and on disk.
pub(super) fn remove_input(input: &Input) -> anyhow::Result<()> {
    let Some(entry) = &input.entry else { return Ok(()) };
    // Remove only the file that was read, not one that replaced it. If the entry is a link, the link is
    // removed.
    let found = entry.state().context("checking the input before removing it")?;
    if !input.is(&found) {
        anyhow::bail!("the input was replaced while it was read, so it is not removed");
    }
    let of = &input.metadata;
    let changed = (found.st_size, found.st_mtime, i64::try_from(found.st_mtime_nsec));
    // A program that writes in place may restore the modification time (`rsync --inplace --times`), but not
    // the change time.
    let touched = (found.st_ctime, i64::try_from(found.st_ctime_nsec));
    if changed != (of.len().cast_signed(), of.mtime(), Ok(of.mtime_nsec()))
        || touched != (of.ctime(), Ok(of.ctime_nsec()))
    {
        anyhow::bail!("the input changed while it was read, so it is not removed");
    }
    entry.remove().context("removing the input")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::args::Args;
    use crate::cmd::entry;
    use crate::cmd::input::Found;
    use std::ffi::OsString;

    #[test]
    fn an_input_that_was_written_to_or_replaced_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let args = Args::from_command_line(["tamp", "log"].map(OsString::from)).unwrap();
        let open = || Input::open(entry::Entry::named(&path).unwrap(), Found::Named, &args).unwrap().unwrap();
        std::fs::write(&path, b"a line\n").unwrap();

        let input = open();
        std::fs::write(&path, b"a line\nand another\n").unwrap();
        assert_eq!(
            remove_input(&input).unwrap_err().to_string(),
            "the input changed while it was read, so it is not removed"
        );

        let input = open();
        let modified = input.metadata.modified().unwrap();
        // The file system's clock may advance only every few milliseconds.
        while std::fs::metadata(&path).unwrap().ctime_nsec() == input.metadata.ctime_nsec() {
            std::fs::write(&path, b"A LINE\nand another\n").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        assert_eq!(
            remove_input(&input).unwrap_err().to_string(),
            "the input changed while it was read, so it is not removed"
        );

        let input = open();
        std::fs::rename(&path, folder.path().join("log.1")).unwrap();
        std::fs::write(&path, b"a line\nand another\n").unwrap();
        assert_eq!(
            remove_input(&input).unwrap_err().to_string(),
            "the input was replaced while it was read, so it is not removed"
        );

        remove_input(&open()).unwrap();
        assert!(!path.exists());
    }
}
