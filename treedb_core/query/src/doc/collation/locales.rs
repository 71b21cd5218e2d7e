//! The locales a collation may name.
//!
//! The names are ICU's, as in MongoDB's list of supported locales: `de`, `fr_CA`, `zh@collation=stroke`. Each is mapped
//! to the identifier of the rules in ICU4X's data; [`ROOT`] stands for CLDR's root collation, which many languages
//! use as it is.

/// The identifier of the root collation's rules.
pub(super) const ROOT: &str = "und";
/// The identifier of rules that are the root collation's with accents compared from the end of the string.
pub(super) const ROOT_BACKWARDS: &str = "fr-CA";
/// The locale whose accents are compared from the end of the string unless `backwards` says otherwise.
pub(super) const FRENCH_CANADA: &str = "fr_CA";

/// Locale and rules, in the order of the locales' bytes.
#[rustfmt::skip]
const LOCALES: &[(&str, &str)] = &[
    ("af", "af"),
    ("am", "am"),
    ("ar", "ar"),
    ("ar@collation=compat", "ar-u-co-compat"),
    ("as", "as"),
    ("az", "az"),
    ("be", "be"),
    ("bg", "bg"),
    ("bn", "bn"),
    ("bn@collation=traditional", "bn-u-co-trad"),
    ("bo", "und"),
    ("bs", "bs"),
    ("bs_Cyrl", "bs-Cyrl"),
    ("ca", "und"),
    ("chr", "chr"),
    ("cs", "cs"),
    ("cy", "cy"),
    ("da", "da"),
    ("de", "und"),
    ("de@collation=eor", "de-u-co-eor"),
    ("de@collation=phonebook", "de-u-co-phonebk"),
    ("de_AT", "und"),
    ("de_AT@collation=phonebook", "de-AT-u-co-phonebk"),
    ("dsb", "dsb"),
    ("dz", "und"),
    ("ee", "ee"),
    ("el", "el"),
    ("en", "und"),
    ("en_US", "und"),
    ("en_US_POSIX", "en-US-posix"),
    ("eo", "eo"),
    ("es", "es"),
    ("es@collation=traditional", "es-u-co-trad"),
    ("et", "et"),
    ("fa", "fa"),
    ("fa_AF", "fa-AF"),
    ("fi", "fi"),
    ("fi@collation=traditional", "fi-u-co-trad"),
    ("fil", "fil"),
    ("fo", "fo"),
    ("fr", "und"),
    ("fr_CA", "und"),
    ("ga", "und"),
    ("gl", "gl"),
    ("gu", "gu"),
    ("ha", "ha"),
    ("he", "he"),
    ("hi", "hi"),
    ("hr", "hr"),
    ("hsb", "hsb"),
    ("hu", "hu"),
    ("hy", "hy"),
    ("id", "und"),
    ("ig", "ig"),
    ("is", "is"),
    ("it", "und"),
    ("ja", "ja"),
    ("ja@collation=unihan", "ja-u-co-unihan"),
    ("ka", "ka"),
    ("kk", "kk"),
    ("km", "km"),
    ("kn", "kn"),
    ("kn@collation=traditional", "kn-u-co-trad"),
    ("ko", "ko"),
    ("ko@collation=unihan", "ko-u-co-unihan"),
    ("kok", "kok"),
    ("ky", "ky"),
    ("lb", "und"),
    ("lkt", "und"),
    ("ln", "und"),
    ("lo", "lo"),
    ("lt", "lt"),
    ("lv", "lv"),
    ("mk", "mk"),
    ("ml", "ml"),
    ("mn", "mn"),
    ("mr", "mr"),
    ("ms", "und"),
    ("mt", "mt"),
    ("my", "my"),
    ("nb", "nb"),
    ("ne", "ne"),
    ("nl", "und"),
    ("nn", "nn"),
    ("om", "om"),
    ("or", "or"),
    ("pa", "pa"),
    ("pl", "pl"),
    ("ps", "ps"),
    ("pt", "und"),
    ("ro", "ro"),
    ("ru", "ru"),
    ("si", "si"),
    ("si@collation=dictionary", "si-u-co-dict"),
    ("sk", "sk"),
    ("sl", "sl"),
    ("sq", "sq"),
    ("sr", "sr"),
    ("sr_Latn", "sr-Latn"),
    ("sv", "sv"),
    ("sw", "und"),
    ("ta", "ta"),
    ("te", "te"),
    ("th", "th"),
    ("to", "to"),
    ("tr", "tr"),
    ("ug", "ug"),
    ("uk", "uk"),
    ("ur", "ur"),
    ("vi", "vi"),
    ("vi@collation=traditional", "vi-u-co-trad"),
    ("wae", "und"),
    ("yi", "und"),
    ("yo", "yo"),
    ("zh", "zh"),
    ("zh@collation=pinyin", "zh-u-co-pinyin"),
    ("zh@collation=stroke", "zh-u-co-stroke"),
    ("zh@collation=unihan", "zh-u-co-unihan"),
    ("zh@collation=zhuyin", "zh-u-co-zhuyin"),
    ("zh_Hant", "zh-Hant"),
    ("zh_Hant@collation=pinyin", "zh-Hant-u-co-pinyin"),
    ("zh_Hant@collation=stroke", "zh-Hant-u-co-stroke"),
    ("zh_Hant@collation=unihan", "zh-Hant-u-co-unihan"),
    ("zh_Hant@collation=zhuyin", "zh-Hant-u-co-zhuyin"),
    ("zu", "und"),
];

/// Locales of MongoDB's list whose rules ICU4X's data does not have.
const WITHOUT_RULES: &[&str] = &[
    "haw",
    "kl",
    "ko@collation=searchjl",
    "ln@collation=phonetic",
    "se",
    "smn",
    "zh@collation=big5han",
    "zh@collation=gb2312han",
];

/// What is known about the name of a locale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Its name, and the identifier of its rules.
    Rules(&'static str, &'static str),
    /// It exists, but its rules are not available.
    WithoutRules,
    /// There is no such locale; perhaps another one was meant.
    Unknown(Option<&'static str>),
}

/// Looks a locale up by its name.
pub(super) fn find(name: &str) -> Found {
    if let Some((name, rules)) = entry(name) {
        return Found::Rules(name, rules);
    }
    // Every language has a variant for searching.
    let searched = name.strip_suffix("@collation=search").is_some_and(|locale| entry(locale).is_some());
    match searched || WITHOUT_RULES.contains(&name) {
        true => Found::WithoutRules,
        false => Found::Unknown(nearest(name)),
    }
}

fn entry(name: &str) -> Option<(&'static str, &'static str)> {
    let at = LOCALES.binary_search_by_key(&name, |(locale, _)| locale).ok()?;
    LOCALES.get(at).copied()
}

/// The locale that is left of `name` without its last parts: `en` of `en-GB`.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    let mut rest = name.as_str();
    loop {
        if let Some((found, _)) = entry(rest) {
            return Some(found);
        }
        (rest, _) = rest.rsplit_once(['_', '@'])?;
    }
}

/// Every locale with rules, for tests.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    LOCALES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_is_found_by_its_exact_name_and_the_nearest_one_is_suggested_for_others() {
        assert!(LOCALES.is_sorted_by(|(a, _), (b, _)| a < b));
        for (name, found) in [
            ("sv", Found::Rules("sv", "sv")),
            ("en_US", Found::Rules("en_US", ROOT)),
            ("de@collation=phonebook", Found::Rules("de@collation=phonebook", "de-u-co-phonebk")),
            ("zh@collation=big5han", Found::WithoutRules),
            ("sv@collation=search", Found::WithoutRules),
            ("xx@collation=search", Found::Unknown(None)),
            ("en_GB", Found::Unknown(Some("en"))),
            ("fr-CA", Found::Unknown(Some("fr_CA"))),
            ("de_CH@collation=phonebook", Found::Unknown(Some("de"))),
            ("EN", Found::Unknown(None)),
            ("", Found::Unknown(None)),
        ] {
            assert_eq!(find(name), found, "{name}");
        }
    }
}
