//! A store in an S3 bucket.

use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    ClientConfigKey, GetResult, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};

use crate::bounded::Bounded;
use crate::error::SharedError;
use crate::secret;

/// Largest number of objects of one run, with those of earlier states and of killed pushes.
const OBJECTS_MAX: usize = 10_000;
/// Longest time for the repetitions of one request.
const PATIENCE: Duration = Duration::from_mins(1);

/// An open bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    files: PrefixStore<AmazonS3>,
}

impl Bucket {
    pub(crate) fn open(bucket: &str, prefix: &str) -> Result<Self, SharedError> {
        Ok(Self { files: PrefixStore::new(s3(bucket)?, Path::from(prefix)) })
    }

    /// Creates an object; returns `false` if the name exists.
    pub(crate) async fn create(&self, key: &str, bytes: Vec<u8>) -> Result<bool, SharedError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.files.put_opts(&Path::from(key), bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn read(&self, key: &str) -> Result<GetResult, SharedError> {
        Ok(self.files.get(&Path::from(key)).await?)
    }

    /// Deletes every object below `key`.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), SharedError> {
        let folder = Path::from(key);
        let (mut names, mut listed) = (Vec::new(), self.files.list(Some(&folder)));
        while let Some(found) = listed.next().await {
            let name = found?.location;
            if !name.prefix_matches(&folder) || names.len() == OBJECTS_MAX {
                let what = format!("the store lists other objects, or more than {OBJECTS_MAX}, below {key}");
                return Err(SharedError::wrong(what));
            }
            names.push(name);
        }
        for name in names {
            self.files.delete(&name).await?;
        }
        Ok(())
    }
}

/// The bucket, with credentials and end point from the environment, as in other programs for S3.
fn s3(bucket: &str) -> Result<AmazonS3, SharedError> {
    // The HTTP client takes the process's default; it may have been installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
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
    let end_point = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    if end_point.is_some_and(|url| is_plain_and_near(&url)) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    let retry = RetryConfig { max_retries: 3, retry_timeout: PATIENCE, ..RetryConfig::default() };
    let builder = builder
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), "60s")
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), "10s")
        // Not every server for S3 deletes several objects in one request.
        .with_disable_bulk_delete(true);
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
