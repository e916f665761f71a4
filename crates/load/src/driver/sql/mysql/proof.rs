//! Proofs of a password that do not reveal it.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};

/// `mysql_native_password`: SHA1(p) XOR SHA1(nonce + SHA1(SHA1(p))); nothing for an empty password.
///
/// # Source
///
/// <https://mariadb.com/kb/en/authentication-plugin-mysql_native_password/>
pub(super) fn native(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[password]);
    let twice = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[&once]);
    xor(&once, &hash(&SHA1_FOR_LEGACY_USE_ONLY, &[nonce, &twice]))
}

/// `caching_sha2_password`: SHA256(p) XOR SHA256(SHA256(SHA256(p)) + nonce); nothing for an empty password.
///
/// # Source
///
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>
pub(super) fn caching_sha2(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = hash(&SHA256, &[password]);
    let twice = hash(&SHA256, &[&once]);
    xor(&once, &hash(&SHA256, &[&twice, nonce]))
}

/// `client_ed25519`: a signature of the nonce, by a key derived from the password.
///
/// The expanded key is the SHA512 of the password; in RFC 8032 it is the SHA512 of a seed of 32 bytes. All
/// else is the same.
///
/// # Source
///
/// RFC 8032, Edwards-Curve Digital Signature Algorithm, section 5.1.6;
/// <https://mariadb.com/kb/en/authentication-plugin-ed25519/>
pub(super) fn ed25519(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let expanded = hash(&SHA512, &[password]);
    let (secret, prefix) = expanded.split_at(32);
    let secret = Scalar::from_bytes_mod_order(clamp_integer(secret.try_into().expect("half of 64 bytes")));
    let key = EdwardsPoint::mul_base(&secret).compress();
    let scalar_of = |parts: &[&[u8]]| {
        let wide = hash(&SHA512, parts);
        Scalar::from_bytes_mod_order_wide(&wide.try_into().expect("64 bytes"))
    };
    let r = scalar_of(&[prefix, nonce]);
    let point = EdwardsPoint::mul_base(&r).compress();
    let challenge = scalar_of(&[point.as_bytes(), key.as_bytes(), nonce]);
    let s = r + challenge * secret;
    [point.as_bytes(), &s.to_bytes()[..]].concat()
}

fn hash(algorithm: &'static Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(algorithm);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().to_vec()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_those_of_another_implementation() {
        // The nonces and proofs of the tests of the crate mysql_common.
        let nonce = [
            0x64, 0x4c, 0x54, 0x67, 0x14, 0x63, 0x0c, 0x1c, 0x44, 0x24, 0x57, 0x1f, 0x0b, 0x33, 0x6b, 0x09,
            0x35, 0x23, 0x63, 0x74,
        ];
        for password in [&b"root"[..], b"s3cret", b"with a blank and \xc3\xa4"] {
            assert_eq!(
                native(password, &nonce),
                mysql_common::scramble::scramble_native(&nonce, password).unwrap()
            );
            assert_eq!(
                caching_sha2(password, &nonce),
                mysql_common::scramble::scramble_sha256(&nonce, password).unwrap()
            );
        }
        assert!(native(b"", &nonce).is_empty() && caching_sha2(b"", &nonce).is_empty());
    }

    #[test]
    fn a_signature_is_one_of_the_key_that_follows_from_the_password() {
        use ring::signature::{ED25519, UnparsedPublicKey};
        let (password, nonce) = (b"foobar", [7; 32]);
        let signature = ed25519(password, &nonce);
        let secret: [u8; 32] = hash(&SHA512, &[password])[..32].try_into().unwrap();
        let secret = Scalar::from_bytes_mod_order(clamp_integer(secret));
        let key = EdwardsPoint::mul_base(&secret).compress();
        UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(&nonce, &signature).unwrap();
        assert!(UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(&[8; 32], &signature).is_err());
    }
}
