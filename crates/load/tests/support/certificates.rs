//! Certificates for a test, made by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::mariadb::installed;

/// An authority, and the certificates that it has signed.
pub(crate) struct Authority {
    dir: TempDir,
}

/// The files of a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Valid {
    Now,
    /// Valid in the year 2020.
    Once,
}

impl Authority {
    /// Makes an authority; prints a line and returns `None` if openssl is not installed.
    pub(crate) fn new() -> Option<Self> {
        if installed("openssl").is_none() {
            println!("skipped: openssl is not installed (apt-get install openssl)");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display();
        fs::write(
            dir.path().join("ca.cnf"),
            format!(
                "[ca]\ndefault_ca = d\n[d]\ndatabase = {root}/index\nserial = {root}/serial\nnew_certs_dir = {root}\n\
                 default_md = sha256\npolicy = p\ncopy_extensions = copy\nunique_subject = no\n[p]\ncommonName = supplied\n"
            ),
        )
        .unwrap();
        fs::write(dir.path().join("index"), "").unwrap();
        fs::write(dir.path().join("serial"), "1000\n").unwrap();
        openssl(
            dir.path(),
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE",
        );
        Some(Self { dir })
    }

    /// The file of the authority's certificate.
    pub(crate) fn file(&self) -> String {
        self.dir.path().join("ca.pem").display().to_string()
    }

    /// A certificate made out to `localhost`.
    pub(crate) fn sign(&self, name: &str, valid: Valid) -> Certificate {
        let dir = self.dir.path();
        openssl(
            dir,
            &format!(
                "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout {name}.key -out {name}.csr -addext subjectAltName=DNS:localhost"
            ),
        );
        let dates = match valid {
            Valid::Now => "-days 2",
            Valid::Once => "-startdate 20200101000000Z -enddate 20200102000000Z",
        };
        openssl(
            dir,
            &format!(
                "ca -batch -notext -config ca.cnf -cert ca.pem -keyfile ca.key -in {name}.csr -out {name}.pem {dates}"
            ),
        );
        Certificate { certificate: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}.key")) }
    }
}

fn openssl(dir: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&made.stderr));
}
