//! A store in a bucket of S3, or in a container of Azure.

use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    ClientConfigKey, Error, GetResult, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};

use crate::bounded::Bounded;
use crate::error::SharedError;
use crate::location::Provider;
use crate::secret;

/// Largest number of objects of one run, with those of earlier states and of killed pushes.
const OBJECTS_MAX: usize = 10_000;
/// Longest time for the repetitions of one request.
const PATIENCE: Duration = Duration::from_mins(1);
/// Options of the HTTP client.
const CLIENT: [(ClientConfigKey, &str); 2] =
    [(ClientConfigKey::Timeout, "60s"), (ClientConfigKey::ConnectTimeout, "10s")];

/// An open bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    files: PrefixStore<Box<dyn ObjectStore>>,
    /// Environment variables that would have credentials, if none of them is set.
    lacks: Option<&'static str>,
}

impl Bucket {
    pub(crate) fn open(provider: Provider, bucket: &str, prefix: &str) -> Result<Self, SharedError> {
        // The HTTP client takes the process's default; it may have been installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = match provider {
            Provider::S3 => s3(bucket)?,
            Provider::Azure => azure(bucket)?,
        };
        Ok(Self { files: PrefixStore::new(store, Path::from(prefix)), lacks: lacks(provider) })
    }

    /// The error of a request. Without credentials in the environment, those of the machine are asked for,
    /// and an error of that does not say so.
    fn error(&self, error: Error) -> SharedError {
        match (self.lacks, error) {
            (Some(variables), error) if !matches!(error, Error::NotFound { .. }) => {
                SharedError::NoCredentials { variables, source: error }
            }
            (_, error) => error.into(),
        }
    }

    /// Creates an object; returns `false` if the name exists.
    pub(crate) async fn create(&self, key: &str, bytes: Vec<u8>) -> Result<bool, SharedError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.files.put_opts(&Path::from(key), bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.error(error)),
        }
    }

    pub(crate) async fn read(&self, key: &str) -> Result<GetResult, SharedError> {
        self.files.get(&Path::from(key)).await.map_err(|error| self.error(error))
    }

    /// Deletes every object below `key`.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), SharedError> {
        let folder = Path::from(key);
        let (mut names, mut listed) = (Vec::new(), self.files.list(Some(&folder)));
        while let Some(found) = listed.next().await {
            let name = found.map_err(|error| self.error(error))?.location;
            if !name.prefix_matches(&folder) || names.len() == OBJECTS_MAX {
                let what = format!("the store lists other objects, or more than {OBJECTS_MAX}, below {key}");
                return Err(SharedError::wrong(what));
            }
            names.push(name);
        }
        for name in names {
            self.files.delete(&name).await.map_err(|error| self.error(error))?;
        }
        Ok(())
    }
}

/// Variables with credentials, if none of them is set.
fn lacks(provider: Provider) -> Option<&'static str> {
    let (names, text): (&[&str], _) = match provider {
        Provider::S3 => (
            &[
                "AWS_ACCESS_KEY_ID",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                "AWS_SKIP_SIGNATURE",
            ],
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        Provider::Azure => (
            &[
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_SAS_TOKEN",
                "AZURE_STORAGE_TOKEN",
                "AZURE_CLIENT_SECRET",
                "AZURE_FEDERATED_TOKEN_FILE",
                "AZURE_USE_AZURE_CLI",
                "AZURE_SKIP_SIGNATURE",
            ],
            "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
        ),
    };
    names.iter().all(|name| setting(name).is_none()).then_some(text)
}

/// The value of an environment variable that is not empty.
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn retry() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: PATIENCE, ..RetryConfig::default() }
}

/// The bucket, with credentials and end point from the environment, as in other programs for S3.
fn s3(bucket: &str) -> Result<Box<dyn ObjectStore>, SharedError> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_http_connector(Bounded);
    for (name, key) in [
        ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
        ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
        ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ] {
        if let Some(value) = secret::of(name)? {
            builder = builder.with_config(key, value);
        }
    }
    let end_point = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].into_iter().find_map(setting);
    if end_point.is_some_and(|url| is_plain_and_near(&url)) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    for (key, value) in CLIENT {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    // Not every server for S3 deletes several objects in one request.
    let builder = builder.with_disable_bulk_delete(true).with_retry(retry());
    Ok(Box::new(builder.build()?))
}

/// The container, with account, credentials and end point from the environment, as in other programs for
/// Azure.
fn azure(container: &str) -> Result<Box<dyn ObjectStore>, SharedError> {
    if setting("AZURE_STORAGE_ACCOUNT_NAME").is_none() {
        let text = "which account has the container: set AZURE_STORAGE_ACCOUNT_NAME";
        return Err(SharedError::Location(text.to_owned()));
    }
    let builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    let mut builder = builder.with_http_connector(Bounded);
    for (name, key) in [
        ("AZURE_STORAGE_ACCOUNT_KEY", AzureConfigKey::AccessKey),
        ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
        ("AZURE_STORAGE_TOKEN", AzureConfigKey::Token),
        ("AZURE_CLIENT_SECRET", AzureConfigKey::ClientSecret),
    ] {
        if let Some(value) = secret::of(name)? {
            builder = builder.with_config(key, value);
        }
    }
    let end_point = ["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"].into_iter().find_map(setting);
    if end_point.is_some_and(|url| is_plain_and_near(&url)) {
        builder = builder.with_config(AzureConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    for (key, value) in CLIENT {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    Ok(Box::new(builder.with_retry(retry()).build()?))
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
