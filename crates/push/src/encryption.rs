//! The content encoding `aes128gcm` (RFC 8188) with the keys of Web Push (RFC 8291).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::subscription::{AUTH_BYTES, PUBLIC_KEY_BYTES, PushSubscription};

const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

/// The size of a record, in the header. A message is one record.
const RECORD_BYTES: u32 = 4096;

/// Marks the end of the content in the last record; padding would follow.
const LAST_RECORD: u8 = 2;

/// Encrypts a payload for a subscription. Fails if its key is no point of the curve.
pub(crate) fn encrypt(
    subscription: &PushSubscription,
    payload: &[u8],
) -> Result<Vec<u8>, Unspecified> {
    let random = SystemRandom::new();
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &random)?;
    let public = private.compute_public_key()?;
    let public: [u8; PUBLIC_KEY_BYTES] = public.as_ref().try_into().map_err(|_| Unspecified)?;
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt)?;
    let receiver = UnparsedPublicKey::new(&ECDH_P256, &subscription.public_key);
    let sealing = |secret: &[u8]| {
        let keys = MessageKeys { receiver: &subscription.public_key, sender: &public };
        keys.seal(secret, &subscription.auth, salt, payload)
    };
    agree_ephemeral(private, &receiver, sealing)?
}

/// The public keys of both sides.
struct MessageKeys<'a> {
    receiver: &'a [u8; PUBLIC_KEY_BYTES],
    sender: &'a [u8; PUBLIC_KEY_BYTES],
}

impl MessageKeys<'_> {
    /// The body of the message, given the secret that both sides agreed on.
    fn seal(
        &self,
        secret: &[u8],
        auth: &[u8; AUTH_BYTES],
        salt: [u8; SALT_BYTES],
        payload: &[u8],
    ) -> Result<Vec<u8>, Unspecified> {
        let combined = Salt::new(HKDF_SHA256, auth).extract(secret);
        let info = [b"WebPush: info\0".as_slice(), self.receiver, self.sender].concat();
        let input = derive::<32>(&combined, &info)?;
        let derived = Salt::new(HKDF_SHA256, &salt).extract(&input);
        let key = derive::<KEY_BYTES>(&derived, b"Content-Encoding: aes128gcm\0")?;
        let nonce = derive::<NONCE_BYTES>(&derived, b"Content-Encoding: nonce\0")?;

        let mut record = payload.to_vec();
        record.push(LAST_RECORD);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record)?;

        let mut body = Vec::with_capacity(SALT_BYTES + 5 + PUBLIC_KEY_BYTES + record.len());
        body.extend(salt);
        body.extend(RECORD_BYTES.to_be_bytes());
        // The length of the key that follows.
        body.push(65);
        body.extend(self.sender);
        body.append(&mut record);
        Ok(body)
    }
}

/// How many bytes are derived.
struct DerivedLength(usize);

impl KeyType for DerivedLength {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(key: &Prk, info: &[u8]) -> Result<[u8; N], Unspecified> {
    let mut derived = [0; N];
    key.expand(&[info], DerivedLength(N))?.fill(&mut derived)?;
    Ok(derived)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::MessageKeys;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        BASE64_URL_SAFE_NO_PAD.decode(text).unwrap().try_into().unwrap()
    }

    /// RFC 8291, appendix A. The key of the sender cannot be given to `ring`, so the test starts with
    /// the secret that the appendix derives from it.
    #[test]
    fn the_example_of_the_rfc_has_the_same_body() {
        let receiver = bytes(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        );
        let sender = bytes(
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
        );
        let secret: [u8; 32] = bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let keys = MessageKeys { receiver: &receiver, sender: &sender };
        let body = keys.seal(
            &secret,
            &bytes("BTBZMqHH6r4Tts7J_aSIgg"),
            bytes("DGv6ra1nlYgDCS1FRnbzlw"),
            b"When I grow up, I want to be a watermelon",
        );
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc\
                        InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWL\
                        VWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(BASE64_URL_SAFE_NO_PAD.encode(body.unwrap()), expected);
    }
}
