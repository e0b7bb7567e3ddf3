//! Slugs: the last part of a manifest's well-known path.

use std::fmt;

use crate::codes::{self, Code};
use crate::finding::Finding;

/// Longest slug: ERC-8257 §6.
pub const MAX_CHARS: usize = 64;

/// A slug: lowercase letters, digits and inner hyphens, 1 to [`MAX_CHARS`] of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(String);

/// Why a text is not a slug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlugError {
    /// The text is empty, or no character of the name can be kept.
    Empty,
    /// More than [`MAX_CHARS`] characters; holds their number.
    TooLong(usize),
    /// A character other than a lowercase letter, a digit or a hyphen.
    Character(char),
    /// A hyphen at the start or at the end.
    OuterHyphen,
}

impl Slug {
    /// Parses a slug. Nothing is converted.
    pub fn parse(text: &str) -> Result<Self, SlugError> {
        if text.is_empty() {
            return Err(SlugError::Empty);
        }
        if let Some(c) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            return Err(SlugError::Character(c));
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(SlugError::OuterHyphen);
        }
        if text.len() > MAX_CHARS {
            return Err(SlugError::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Derives a slug from the name of a tool or folder: lowercase, every run of other characters becomes one hyphen, hyphens at the ends
    /// are removed. A name that is too long is an error: truncated names could collide silently.
    ///
    /// ```
    /// use toolcrib_core::slug::Slug;
    ///
    /// assert_eq!(Slug::derive("NFT Price  Oracle!").unwrap().as_str(), "nft-price-oracle");
    /// ```
    pub fn derive(name: &str) -> Result<Self, SlugError> {
        let mut slug = String::with_capacity(name.len().min(MAX_CHARS));
        let mut length = 0;
        let mut pending = false;
        for c in name.chars() {
            // Only ASCII letters have one undisputed lowercase form that a slug may contain.
            let c = c.to_ascii_lowercase();
            if !c.is_ascii_alphanumeric() {
                pending = true;
                continue;
            }
            let hyphen = pending && length > 0;
            pending = false;
            length += 1 + usize::from(hyphen);
            if length <= MAX_CHARS {
                slug.extend(hyphen.then_some('-'));
                slug.push(c);
            }
        }
        match length {
            0 => Err(SlugError::Empty),
            1..=MAX_CHARS => Ok(Self(slug)),
            _ => Err(SlugError::TooLong(length)),
        }
    }

    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Slug {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl SlugError {
    /// The code of this error, if the text is the slug of a `metadataURI`.
    pub const fn code(self) -> Code {
        match self {
            Self::Empty | Self::TooLong(_) => codes::url::SLUG_LENGTH,
            Self::Character(_) | Self::OuterHyphen => codes::url::SLUG_GRAMMAR,
        }
    }
}

impl fmt::Display for SlugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the slug is empty"),
            Self::TooLong(count) => write!(f, "the slug has {count} characters, the limit is {MAX_CHARS}"),
            Self::Character(c) => write!(f, "the slug has {c:?}, which is not a lowercase letter, digit or hyphen"),
            Self::OuterHyphen => f.write_str("the slug starts or ends with a hyphen"),
        }
    }
}

impl std::error::Error for SlugError {}

/// Compares a slug with the one derived from the tool's name. Any slug is legal, but listings are reported to expect the derived one.
pub fn lint_against_name(slug: &Slug, name: &str) -> Option<Finding> {
    let derived = Slug::derive(name).ok()?;
    (derived != *slug).then(|| Finding::new(codes::url::SLUG_DIFFERS).expected(derived.as_str()).got(slug.as_str()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // req: URL-002
    #[test]
    fn grammar() {
        let longest = "a".repeat(MAX_CHARS);
        for good in ["a", "0", "a-b", "a--b", "nft-price-oracle", &longest] {
            assert_eq!(Slug::parse(good).as_ref().map(Slug::as_str), Ok(good));
        }
        let too_long = "a".repeat(MAX_CHARS + 1);
        for (bad, fault) in [
            ("", SlugError::Empty),
            ("-a", SlugError::OuterHyphen),
            ("a-", SlugError::OuterHyphen),
            ("-", SlugError::OuterHyphen),
            ("A", SlugError::Character('A')),
            ("a_b", SlugError::Character('_')),
            ("a.b", SlugError::Character('.')),
            ("a/b", SlugError::Character('/')),
            ("a%62", SlugError::Character('%')),
            ("é", SlugError::Character('é')),
            ("a\n", SlugError::Character('\n')),
            (&too_long, SlugError::TooLong(MAX_CHARS + 1)),
        ] {
            assert_eq!(Slug::parse(bad), Err(fault), "{bad:?}");
        }
    }

    // req: URL-002
    #[test]
    fn derived_from_names() {
        for (name, slug) in [
            ("Weather", "weather"),
            ("  NFT Price  Oracle! ", "nft-price-oracle"),
            ("pump.fun", "pump-fun"),
            ("--a__b--", "a-b"),
            ("Café 2", "caf-2"),
            (&"a ".repeat(32), &"a-".repeat(32)[..63]),
        ] {
            assert_eq!(Slug::derive(name).as_ref().map(Slug::as_str), Ok(slug), "{name:?}");
        }
        assert_eq!(Slug::derive("日本"), Err(SlugError::Empty));
        assert_eq!(Slug::derive(&"x".repeat(64)).map(|slug| slug.as_str().len()), Ok(64));
        assert_eq!(Slug::derive(&"x".repeat(65)), Err(SlugError::TooLong(65)));
    }

    #[test]
    fn a_slug_unlike_the_name_is_a_hint_only() {
        let slug = Slug::parse("oracle").expect("well-formed");
        let finding = lint_against_name(&slug, "Price Oracle").expect("well-formed");
        assert_eq!((finding.code, finding.expected.as_deref()), (codes::url::SLUG_DIFFERS, Some("price-oracle")));
        assert!(lint_against_name(&slug, "Oracle").is_none());
        assert!(lint_against_name(&slug, "日本").is_none(), "nothing to compare with");
    }

    proptest! {
        #[test]
        fn what_is_derived_parses(name in any::<String>()) {
            if let Ok(slug) = Slug::derive(&name) {
                prop_assert_eq!(Slug::parse(slug.as_str()), Ok(slug.clone()));
                prop_assert_eq!(Slug::derive(slug.as_str()), Ok(slug));
            }
        }
    }
}
