//! The only session of a page: a one-time token, then a cookie, until the idle timeout.
//!
//! Only hashes of token and cookie are stored, and they are compared in constant time.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::hex;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use toolcrib_core::clock::UnixTime;
use zeroize::Zeroizing;

/// Idle timeout of a session in seconds, and the validity of an unused token.
pub const IDLE_SECONDS: i64 = 30 * 60;

/// The name of the cookie.
const COOKIE_NAME: &str = "toolcrib-settings";

/// Bytes of tokens: 256 bits.
const TOKEN_BYTES: usize = 32;

/// The session of a page.
pub(super) struct Session {
    state: Mutex<State>,
}

enum State {
    /// No browser has signed in yet.
    Waiting { token: Hash, since: UnixTime },
    /// A browser has signed in.
    Active { cookie: Hash, csrf: FormToken, used: UnixTime },
    /// It has ended permanently.
    Ended,
}

/// An authenticated request.
#[derive(Clone)]
pub(super) struct Signed {
    /// The token that every form must contain.
    pub(super) csrf: FormToken,
}

/// A CSRF token, which proves that a form comes from this page.
#[derive(Clone)]
pub(super) struct FormToken(Zeroizing<String>);

impl FormToken {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the token.
    pub(super) fn is(&self, given: &str) -> bool {
        Hash::of(&self.0).is(given)
    }
}

impl Session {
    /// Creates a session that waits for its browser, and its token.
    pub(super) fn open(now: UnixTime) -> Result<(Self, Zeroizing<String>), getrandom::Error> {
        let token = random(TOKEN_BYTES)?;
        Ok((Self { state: Mutex::new(State::Waiting { token: Hash::of(&token), since: now }) }, token))
    }

    /// Exchanges the token for the value of the cookie. `None` if the token is wrong or was used before.
    pub(super) fn sign_in(&self, token: &str, now: UnixTime) -> Result<Option<Zeroizing<String>>, getrandom::Error> {
        let mut state = self.current(now);
        match &*state {
            State::Waiting { token: expected, .. } if expected.is(token) => {}
            _ => return Ok(None),
        }
        let (cookie, csrf) = (random(TOKEN_BYTES)?, FormToken(random(TOKEN_BYTES)?));
        *state = State::Active { cookie: Hash::of(&cookie), csrf, used: now };
        Ok(Some(cookie))
    }

    /// Whether a request has the session cookie. `is_use` says whether the user caused the request, which extends the session.
    pub(super) fn check(&self, headers: &HeaderMap, now: UnixTime, is_use: bool) -> Option<Signed> {
        let mut state = self.current(now);
        let State::Active { cookie, csrf, used } = &mut *state else { return None };
        // A server on another port may have set a cookie with the same name for another path.
        if !cookies(headers).any(|given| cookie.is(given)) {
            return None;
        }
        if is_use {
            *used = now;
        }
        Some(Signed { csrf: csrf.clone() })
    }

    /// Ends the session.
    pub(super) fn end(&self) {
        *self.lock() = State::Ended;
    }

    /// Whether the session has ended.
    pub(super) fn is_over(&self, now: UnixTime) -> bool {
        matches!(*self.current(now), State::Ended)
    }

    /// The state at this time.
    fn current(&self, now: UnixTime) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let last = match &*state {
            State::Waiting { since, .. } => Some(*since),
            State::Active { used, .. } => Some(*used),
            State::Ended => None,
        };
        if last.is_some_and(|last| now.since(last) >= IDLE_SECONDS) {
            *state = State::Ended;
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(…)")
    }
}

/// The header that sets the cookie. Browsers send a cookie to every port of a host, so only the secret path keeps it from servers on other
/// ports.
pub(super) fn set_cookie(value: &str, path: &str) -> Zeroizing<String> {
    Zeroizing::new(format!("{COOKIE_NAME}={value}; Path={path}; HttpOnly; SameSite=Strict"))
}

/// The values of our cookie in a request.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// Random bytes as hex digits.
pub(super) fn random(bytes: usize) -> Result<Zeroizing<String>, getrandom::Error> {
    let mut buffer = Zeroizing::new(vec![0_u8; bytes]);
    getrandom::fill(&mut buffer)?;
    Ok(Zeroizing::new(hex::encode(&*buffer)))
}

/// The hash of a token.
struct Hash([u8; 32]);

impl Hash {
    fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether this is the token. Hashes are compared in constant time, so timing reveals neither content nor length.
    fn is(&self, given: &str) -> bool {
        bool::from(self.0.ct_eq(&Self::of(given).0))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const START: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn with_cookie(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::try_from(text).unwrap())])
    }

    #[test]
    fn a_token_works_once_and_only_the_cookie_afterwards() {
        let (session, token) = Session::open(START).unwrap();
        assert_eq!(token.len(), 64);
        assert!(session.sign_in("", START).unwrap().is_none());
        assert!(session.sign_in(&token[..63], START).unwrap().is_none());
        let cookie = session.sign_in(&token, START).unwrap().expect("the token");
        assert!(session.sign_in(&token, START).unwrap().is_none(), "it was used");
        let header = |value: &str| with_cookie(&format!("a=b; {COOKIE_NAME}=other;{COOKIE_NAME}={value}; c=d"));
        let signed = session.check(&header(&cookie), START, true).expect("the cookie");
        assert!(signed.csrf.is(signed.csrf.as_str()) && !signed.csrf.is("") && !signed.csrf.is(&cookie));
        for wrong in ["", "x", token.as_str(), signed.csrf.as_str()] {
            assert!(session.check(&header(wrong), START, true).is_none(), "{wrong}");
        }
        assert!(session.check(&HeaderMap::new(), START, true).is_none());
        session.end();
        assert!(session.check(&header(&cookie), START, true).is_none() && session.is_over(START));
    }

    #[test]
    fn sessions_end_without_use() {
        let (session, token) = Session::open(START).unwrap();
        let cookie = session.sign_in(&token, START.plus(IDLE_SECONDS - 1)).unwrap().expect("in time");
        let header = with_cookie(&format!("{COOKIE_NAME}={}", *cookie));
        let mut now = START.plus(IDLE_SECONDS - 1);
        for _ in 0..3 {
            now = now.plus(IDLE_SECONDS - 1);
            assert!(session.check(&header, now, true).is_some());
        }
        // An automatic reload does not extend the session.
        assert!(session.check(&header, now.plus(IDLE_SECONDS - 1), false).is_some());
        assert!(!session.is_over(now.plus(IDLE_SECONDS - 1)));
        assert!(session.check(&header, now.plus(IDLE_SECONDS), false).is_none());
        assert!(session.is_over(now), "for good, also when the clock is set back");
        let (late, token) = Session::open(START).unwrap();
        assert!(late.sign_in(&token, START.plus(IDLE_SECONDS)).unwrap().is_none());
    }
}
