//! TLS parameters of a target: `?tls=verify-full&ca=FILE&cert=FILE&key=FILE&server-name=NAME`.

use super::tls::{self, Identity, Plan, Remedies, Trust};

/// TLS parameters of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Security {
    mode: Option<Mode>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    server_name: Option<String>,
}

/// Whether TLS is used, and the checks of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    /// Nothing is verified.
    Require,
    /// The certificate chain is verified.
    VerifyCa,
    /// The certificate chain and the name are verified.
    VerifyFull,
}

const REMEDIES: Remedies = Remedies {
    authority: "give its CA certificate with ca=FILE, or ",
    name: "give its name with server-name=NAME, or ",
    any: "accept any certificate with tls=require",
};

impl Security {
    pub(crate) const PARAMETERS: &str =
        "tls=verify-full|verify-ca|require|off, ca=FILE, cert=FILE, key=FILE, server-name=NAME";

    /// The scheme's default: TLS with all checks, or no TLS; parameters may override it.
    pub(crate) fn of_scheme(is_secure: bool) -> Self {
        Self { mode: is_secure.then_some(Mode::VerifyFull), ..Self::default() }
    }

    /// Parses one of these parameters; false if the name is another one.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let file = || {
            let problem = || format!("`{name}` needs a file: write {name}=FILE");
            if value.is_empty() { Err(problem()) } else { Ok(Some(value.to_owned())) }
        };
        match name {
            "tls" => self.mode = Some(Mode::read(value)?),
            "ca" => self.ca = file()?,
            "cert" => self.cert = file()?,
            "key" => self.key = file()?,
            "server-name" => {
                tls::server_name(value)?;
                self.server_name = Some(value.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that the parameters are compatible.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.cert.is_some() != self.key.is_some() {
            return Err("a client certificate needs two files: write both cert=FILE and key=FILE".to_owned());
        }
        let says_more = [&self.ca, &self.cert, &self.server_name].into_iter().any(Option::is_some);
        if says_more && !self.is_on() {
            return Err("`ca`, `cert`, `key` and `server-name` need TLS: add tls=verify-full".to_owned());
        }
        if self.ca.is_some() && self.mode == Some(Mode::Require) {
            return Err("tls=require accepts any certificate, so `ca` has no effect: use tls=verify-ca or \
                tls=verify-full"
                .to_owned());
        }
        Ok(())
    }

    /// Whether TLS is used.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.mode, None | Some(Mode::Off))
    }

    /// Whether TLS distinguishes the server from another.
    pub(crate) fn verifies_server(&self) -> bool {
        matches!(self.mode, Some(Mode::VerifyCa | Mode::VerifyFull))
    }

    /// The TLS plan for `host`; `None` without TLS.
    pub(crate) fn plan(&self, host: &str, protocols: &[&[u8]]) -> Result<Option<Plan>, String> {
        let trust = match self.mode {
            None | Some(Mode::Off) => return Ok(None),
            Some(Mode::Require) => Trust::Anybody,
            Some(Mode::VerifyCa) => Trust::Chain,
            Some(Mode::VerifyFull) => Trust::ChainAndName,
        };
        let identity = self.cert.as_deref().zip(self.key.as_deref());
        let identity = identity.map(|(certificate, key)| Identity { certificate, key });
        let config = tls::config(trust, self.ca.as_deref(), identity, protocols)?;
        let name = tls::server_name(self.server_name.as_deref().unwrap_or(host))?;
        Ok(Some(Plan { config, name, remedies: &REMEDIES }))
    }
}

impl Mode {
    fn read(value: &str) -> Result<Self, String> {
        match value {
            "off" => Ok(Self::Off),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err(format!(
                "`{value}` is not a value of tls: expected verify-full, verify-ca, require or off"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parameters: &[(&str, &str)]) -> Result<Security, String> {
        let mut security = Security::default();
        for (name, value) in parameters {
            assert!(security.take(name, value)?);
        }
        security.check().map(|()| security)
    }

    #[test]
    fn parameters_that_do_not_go_together_are_refused() {
        assert!(!read(&[]).unwrap().is_on());
        assert!(read(&[("tls", "verify-full"), ("ca", "/x")]).unwrap().is_on());
        assert!(read(&[("tls", "require")]).unwrap().is_on());
        for (parameters, says) in [
            (&[("tls", "yes")][..], "expected verify-full"),
            (&[("ca", "/x")], "add tls=verify-full"),
            (&[("tls", "off"), ("ca", "/x")], "add tls=verify-full"),
            (&[("tls", "require"), ("ca", "/x")], "accepts any"),
            (&[("tls", "verify-ca"), ("cert", "/x")], "two files"),
            (&[("tls", "verify-ca"), ("ca", "")], "needs a file"),
            (&[("tls", "verify-ca"), ("server-name", "a b")], "is not a valid name"),
        ] {
            let problem = read(parameters).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
        assert!(!Security::default().take("port", "1").unwrap());
    }
}
