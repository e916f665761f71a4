//! `postgres://USER@HOST/DB,s3://BUCKET/PREFIX`: the place of a shared archive.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::SharedError;

/// Place of a shared archive.
#[derive(Debug, Clone)]
pub struct Location {
    index: IndexPlace,
    store: StorePlace,
    /// Text of the user; it contains no password.
    text: String,
}

/// Database with the index.
#[derive(Debug, Clone)]
pub(crate) struct IndexPlace {
    pub(crate) config: Config,
    /// Whether the connection is encrypted and the server's name checked.
    pub(crate) has_tls: bool,
    /// PEM file of certificates that are trusted in place of the system's.
    pub(crate) ca: Option<PathBuf>,
}

/// Place of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorePlace {
    /// Existing folder.
    Folder(PathBuf),
    /// Bucket and prefix; Azure calls its buckets containers.
    Bucket { provider: Provider, bucket: String, prefix: String },
}

/// Kind of object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// Amazon's, and those with its interface.
    S3,
    /// Azure Blob Storage.
    Azure,
}

/// Forms of a store, for errors.
const STORES: &str = "s3://BUCKET/PREFIX, az://CONTAINER/PREFIX and file:///FOLDER exist";

impl Location {
    /// Whether `text` names a shared archive rather than a folder.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads a location.
    ///
    /// # Errors
    ///
    /// The text is no location, contains a password, or names a server off this machine without TLS. The
    /// error does not repeat the text, which may contain a password.
    pub fn parse(text: &str) -> Result<Self, SharedError> {
        let wrong = |what: &str| SharedError::Location(what.to_owned());
        if !Self::is_meant(text) {
            return Err(wrong(
                "expected postgres://USER@HOST/DB,s3://BUCKET/PREFIX or ...,az://CONTAINER/PREFIX or ...,file:///FOLDER",
            ));
        }
        let (index, store) = text.split_once(',').ok_or_else(|| {
            wrong("the location lacks its store: postgres://USER@HOST/DB,s3://BUCKET/PREFIX or ...,az://CONTAINER/PREFIX or ...,file:///FOLDER")
        })?;
        Ok(Self { index: index_place(index)?, store: store_place(store)?, text: text.to_owned() })
    }

    pub(crate) fn index(&self) -> &IndexPlace {
        &self.index
    }

    pub(crate) fn store(&self) -> &StorePlace {
        &self.store
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn index_place(text: &str) -> Result<IndexPlace, SharedError> {
    let wrong = |what: String| SharedError::Location(what);
    let (url, query) = text.split_once('?').unwrap_or((text, ""));
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let parsed: Result<Config, _> = url.parse();
    // A password may have any character, `/` and `@` too.
    let has_password = rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        || parsed.as_ref().is_ok_and(|config| config.get_password().is_some());
    if has_password || query.contains("password=") {
        return Err(wrong(
            "a password on the command line is visible to other users: set PGPASSWORD to it or to {file:PATH}"
                .to_owned(),
        ));
    }
    let config =
        parsed.map_err(|_| wrong("cannot read the URL of the index: postgres://USER@HOST/DB".into()))?;
    let (mut mode, mut ca) = (None, None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", "disable")) => mode = Some(false),
            Some(("sslmode", "verify-full")) => mode = Some(true),
            Some(("sslrootcert", file)) if !file.is_empty() => ca = Some(PathBuf::from(file)),
            _ => {
                let what = "unknown option of the index: sslmode=disable, sslmode=verify-full and sslrootcert=FILE exist";
                return Err(wrong(what.to_owned()));
            }
        }
    }
    if config.get_hosts().is_empty() || config.get_dbname().is_none() || config.get_user().is_none() {
        return Err(wrong(
            "the URL of the index lacks its user, host or database: postgres://USER@HOST/DB".into(),
        ));
    }
    let is_near = config.get_hosts().iter().all(is_on_this_machine);
    let has_tls = mode.unwrap_or(!is_near || ca.is_some());
    let mut config = config;
    config.ssl_mode(if has_tls { SslMode::Require } else { SslMode::Disable });
    Ok(IndexPlace { config, has_tls, ca })
}

fn is_on_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    }
}

fn store_place(text: &str) -> Result<StorePlace, SharedError> {
    let wrong = |what: &str| Err(SharedError::Location(what.to_owned()));
    if let Some(folder) = text.strip_prefix("file://") {
        if !folder.starts_with('/') {
            return wrong("the folder of a store is absolute: file:///FOLDER");
        }
        return Ok(StorePlace::Folder(PathBuf::from(folder)));
    }
    if ["gs://", "gcs://"].iter().any(|scheme| text.starts_with(scheme)) {
        return wrong(
            "Google's own interface is not supported: use its S3 interface, s3://BUCKET/PREFIX with AWS_ENDPOINT_URL",
        );
    }
    if ["azure://", "abfs://", "abfss://", "wasb://", "wasbs://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
    {
        return wrong(
            "a store of Azure is az://CONTAINER/PREFIX, with its account in AZURE_STORAGE_ACCOUNT_NAME",
        );
    }
    let schemes = [("s3://", Provider::S3), ("az://", Provider::Azure)];
    let found = schemes.iter().find_map(|(scheme, of)| Some((text.strip_prefix(scheme)?, *of)));
    let Some((rest, provider)) = found else {
        return wrong(&format!("unknown store: {STORES}"));
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    let is_plain = |text: &str| text.chars().all(plain) && !text.split('/').any(|part| part == "..");
    if bucket.is_empty() || !is_plain(bucket) || !is_plain(prefix) {
        return wrong("the bucket and prefix of a store consist of letters, digits, `.`, `-`, `_` and `/`");
    }
    let (bucket, prefix) = (bucket.to_owned(), prefix.trim_matches('/').to_owned());
    Ok(StorePlace::Bucket { provider, bucket, prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Location::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        for text in [
            "postgres://app:s3cret@db/lab,s3://b/p",
            "postgres://app:s3cret@127.0.0.1/lab",
            "postgres://app:x/s3cret@db.lab/x,s3://b/p",
            "postgres://app@db/lab?password=s3cret,file:///srv",
            "postgres://app:s3cret%40x@db:5432/lab?sslmode=disable,file:///srv",
        ] {
            let error = error(text);
            assert!(!error.contains("s3cret"), "{error}");
            assert!(error.contains("PGPASSWORD") || error.contains("lacks its store"), "{text}: {error}");
        }
    }

    #[test]
    fn a_server_off_this_machine_has_tls_unless_disabled() {
        let has_tls = |index: &str| Location::parse(&format!("{index},file:///srv")).unwrap().index.has_tls;
        for (index, tls) in [
            ("postgres://app@db.lab/x", true),
            ("postgres://app@127.0.0.1.lab/x", true),
            ("postgres://app@10.0.0.1:5433/x", true),
            ("postgres://app@db.lab/x?sslmode=disable", false),
            ("postgres://app@127.0.0.1/x", false),
            ("postgres://app@localhost/x", false),
            ("postgres://app@%2Frun%2Fpostgresql/x", false),
            ("postgres://app@127.0.0.1/x?sslmode=verify-full", true),
        ] {
            assert_eq!(has_tls(index), tls, "{index}");
        }
    }

    #[test]
    fn a_store_is_a_folder_or_a_bucket() {
        let store =
            |text: &str| Location::parse(&format!("postgres://a@localhost/x,{text}")).map(|l| l.store);
        assert_eq!(store("file:///srv/a").unwrap(), StorePlace::Folder("/srv/a".into()));
        for (scheme, provider) in [("s3", Provider::S3), ("az", Provider::Azure)] {
            let of = |bucket: &str, prefix: &str| StorePlace::Bucket {
                provider,
                bucket: bucket.into(),
                prefix: prefix.into(),
            };
            assert_eq!(store(&format!("{scheme}://lab")).unwrap(), of("lab", ""));
            assert_eq!(store(&format!("{scheme}://lab/a/b/")).unwrap(), of("lab", "a/b"));
        }
        for text in ["file://srv", "s3://", "az:///x", "s3://lab/../x", "az://lab/a b", "ftp://x/y", ""] {
            assert!(store(text).is_err(), "{text}");
        }
        for (text, said) in [("gs://lab/x", "S3 interface"), ("abfss://lab@host/x", "az://CONTAINER")] {
            let error = store(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
