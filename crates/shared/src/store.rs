//! The files: `<prefix>/runs/<id>/<file>` in a folder or an S3 bucket.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archive::{ParcelFile, Shelf};
use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientConfigKey, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig};
use record::run::RunId;

use crate::error::SharedError;
use crate::location::StorePlace;
use crate::secret;

/// Longest time for the repetitions of one request.
const PATIENCE: Duration = Duration::from_mins(1);

/// An open store.
#[derive(Debug)]
pub(crate) struct Store {
    files: Arc<dyn ObjectStore>,
    /// The folder of a `file://` store.
    folder: Option<PathBuf>,
}

impl Store {
    pub(crate) fn open(place: &StorePlace) -> Result<Self, SharedError> {
        let files: Arc<dyn ObjectStore> = match place {
            // A folder that does not exist may be a disk that is not mounted: it is not created.
            StorePlace::Folder(folder) => {
                Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true))
            }
            StorePlace::S3 { bucket, prefix } => {
                Arc::new(PrefixStore::new(s3(bucket)?, Path::from(prefix.as_str())))
            }
        };
        let folder = match place {
            StorePlace::Folder(folder) => Some(folder.clone()),
            StorePlace::S3 { .. } => None,
        };
        Ok(Self { files, folder })
    }

    /// Stores a file of a run and reads it back. A file that exists is compared, never replaced.
    pub(crate) async fn put(
        &self,
        shelf: Shelf,
        id: RunId,
        file: &ParcelFile,
        bytes: Vec<u8>,
    ) -> Result<(), SharedError> {
        if let Some(folder) = &self.folder
            && nix::unistd::geteuid().is_root()
        {
            only_root_can_lead(folder, shelf, id)?;
        }
        let key = key(shelf, id, &file.name);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.files.put_opts(&key, bytes.into(), options).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.get(shelf, id, file).await.map(drop).map_err(|error| match error {
            SharedError::Wrong { what } => SharedError::wrong(format!("{what}; it is not replaced")),
            other => other,
        })
    }

    /// Reads a file of a run, and compares it with its length and checksum.
    pub(crate) async fn get(
        &self,
        shelf: Shelf,
        id: RunId,
        file: &ParcelFile,
    ) -> Result<Vec<u8>, SharedError> {
        let key = key(shelf, id, &file.name);
        let found = self.files.get(&key).await?;
        let differs = || SharedError::wrong(format!("the store has other bytes at {key}"));
        if found.meta.size != file.bytes {
            return Err(differs());
        }
        let mut bytes = Vec::new();
        let mut chunks = found.into_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            if (bytes.len() + chunk.len()) as u64 > file.bytes {
                return Err(differs());
            }
            bytes.extend_from_slice(&chunk);
        }
        let sum = archive::sha256(&mut &bytes[..]).expect("bytes in memory are readable");
        if sum == file.sha256 { Ok(bytes) } else { Err(differs()) }
    }
}

/// Refuses a folder on the way to a run that is a link, or that another user than root can change: root would
/// write wherever that user's link leads.
fn only_root_can_lead(folder: &std::path::Path, shelf: Shelf, id: RunId) -> Result<(), SharedError> {
    let of_shelf = folder.join(shelf.word());
    for at in [folder.to_owned(), of_shelf.clone(), of_shelf.join(id.to_string())] {
        let Ok(found) = std::fs::symlink_metadata(&at) else { continue };
        if !found.is_dir() || found.uid() != 0 || found.mode() & 0o022 != 0 {
            let what = "as root, a store is a folder of root that no other user can write";
            return Err(SharedError::Location(format!("{}: {what}", at.display())));
        }
    }
    Ok(())
}

fn key(shelf: Shelf, id: RunId, name: &str) -> Path {
    Path::from_iter([shelf.word(), &id.to_string(), name])
}

/// The bucket, with credentials and end point from the environment, as in other programs for S3.
fn s3(bucket: &str) -> Result<object_store::aws::AmazonS3, SharedError> {
    // The HTTP client takes the process's default; it may have been installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    for (name, key) in [
        ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
        ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
        ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ] {
        if let Some(value) = secret::of(name)? {
            builder = builder.with_config(key, value);
        }
    }
    let end_point = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    if end_point.is_some_and(|url| is_plain_and_near(&url)) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    let retry = RetryConfig { max_retries: 3, retry_timeout: PATIENCE, ..RetryConfig::default() };
    let builder = builder
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), "60s")
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), "10s");
    Ok(builder.with_retry(retry).build()?)
}

/// Whether the URL is `http:` to this machine. Elsewhere `AWS_ALLOW_HTTP=true` must allow it.
fn is_plain_and_near(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or("");
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_writes_into_no_folder_that_others_lead_elsewhere() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let root = tempfile::tempdir().unwrap();
        if !nix::unistd::geteuid().is_root() {
            return println!("skipped: a store of root needs root");
        }
        let id: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let leads = |folder: &std::path::Path| only_root_can_lead(folder, Shelf::Runs, id);
        let store = root.path().join("store");
        let runs = store.join("runs");
        std::fs::create_dir_all(&runs).unwrap();
        leads(&store).unwrap();
        symlink("/etc", runs.join(id.to_string())).unwrap();
        assert!(leads(&store).unwrap_err().to_string().contains(&id.to_string()));
        std::fs::remove_file(runs.join(id.to_string())).unwrap();
        std::fs::set_permissions(&runs, std::fs::Permissions::from_mode(0o777)).unwrap();
        leads(&store).unwrap_err();
        std::fs::set_permissions(&runs, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&store, Some(4_321), None).unwrap();
        leads(&store).unwrap_err();
    }

    #[test]
    fn only_this_machine_is_near() {
        for (url, near) in [
            ("http://127.0.0.1:9000", true),
            ("http://[::1]:9000/", true),
            ("http://localhost", true),
            ("http://127.0.0.1.lab:9000", false),
            ("http://localhost@lab", false),
            ("http://10.0.0.1", false),
            ("https://127.0.0.1", false),
        ] {
            assert_eq!(is_plain_and_near(url), near, "{url}");
        }
    }
}
