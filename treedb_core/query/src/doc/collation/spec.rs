//! The options of a collation: `{ locale: "sv", strength: 2 }`, read, checked, and shown with the defaults filled in.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use icu_collator::options::{
    AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength as IcuStrength,
};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use super::locales::{self, FRENCH_CANADA, Found, ROOT, ROOT_BACKWARDS};
use crate::doc::{Doc, Value, shown};
use crate::error::{ErrorCode, QueryError, Result};

/// The options of a collation, each with its value. Two collations are the same if these are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    locale: &'static str,
    case_level: bool,
    case_first: CaseFirst,
    strength: Strength,
    numeric_ordering: bool,
    /// `alternate` is `shifted`: spaces and punctuation are ignored below strength 4.
    shifted: bool,
    /// `maxVariable` is `space`: of those, only spaces are.
    only_spaces: bool,
    normalization: bool,
    backwards: bool,
}

/// Which of two strings that differ only in case comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CaseFirst {
    Upper,
    Lower,
    Off,
}

/// Which differences count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
enum Strength {
    /// Of letters.
    Primary = 1,
    /// Of accents too.
    Secondary,
    /// Of case and other variants of a letter too.
    Tertiary,
    /// Of punctuation that is otherwise ignored too.
    Quaternary,
    /// Of code points too.
    Identical,
}

/// The options as they were given.
#[derive(Default)]
struct Given<'a> {
    locale: Option<&'a str>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<Strength>,
    numeric_ordering: Option<bool>,
    shifted: Option<bool>,
    only_spaces: Option<bool>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    /// How many fields there are.
    fields: usize,
}

impl<'a> Given<'a> {
    fn read(spec: &'a RawDocument) -> Result<Self> {
        let mut given = Given::default();
        for element in Doc::from(spec).elements() {
            let (name, value) = (element.name_str(), element.value());
            given.fields += 1;
            match name {
                "locale" => given.locale = Some(text(name, value)?),
                "caseLevel" => given.case_level = Some(flag(name, value)?),
                "caseFirst" => given.case_first = Some(CaseFirst::read(name, value)?),
                "strength" => given.strength = Some(Strength::read(value)?),
                "numericOrdering" => given.numeric_ordering = Some(flag(name, value)?),
                "alternate" => {
                    given.shifted =
                        Some(choice(name, value, &[("non-ignorable", false), ("shifted", true)])?);
                }
                "maxVariable" => {
                    given.only_spaces = Some(choice(name, value, &[("punct", false), ("space", true)])?);
                }
                "normalization" => given.normalization = Some(flag(name, value)?),
                "backwards" => given.backwards = Some(flag(name, value)?),
                // Names the ICU of the server that the collation was listed by. Sort keys are always made anew here.
                "version" => drop(text(name, value)?),
                _ => {
                    return Err(QueryError::new(
                        ErrorCode::Location40415,
                        format!("BSON field 'collation.{name}' is an unknown field."),
                    ));
                }
            }
        }
        Ok(given)
    }
}

fn wrong_type(name: &str, value: Value<'_>, wanted: &str) -> QueryError {
    QueryError::new(
        ErrorCode::TypeMismatch,
        format!(
            "BSON field 'collation.{name}' is the wrong type '{}', expected type '{wanted}'",
            value.type_name()
        ),
    )
}

fn text<'a>(name: &str, value: Value<'a>) -> Result<&'a str> {
    match value {
        Value::String(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| QueryError::bad_value(format!("collation: the field '{name}' is not valid UTF-8"))),
        _ => Err(wrong_type(name, value, "string")),
    }
}

fn flag(name: &str, value: Value<'_>) -> Result<bool> {
    match value {
        Value::Bool(is) => Ok(is),
        _ => Err(wrong_type(name, value, "bool")),
    }
}

fn choice<T: Copy>(name: &str, value: Value<'_>, choices: &[(&str, T)]) -> Result<T> {
    let given = text(name, value)?;
    if let Some((_, chosen)) = choices.iter().find(|(choice, _)| *choice == given) {
        return Ok(*chosen);
    }
    let names: Vec<String> = choices.iter().map(|(choice, _)| format!("'{choice}'")).collect();
    Err(QueryError::bad_value(format!(
        "collation: the field '{name}' must be one of {}, got '{given}'",
        names.join(", ")
    )))
}

impl CaseFirst {
    fn read(name: &str, value: Value<'_>) -> Result<Self> {
        let choices = [("upper", CaseFirst::Upper), ("lower", CaseFirst::Lower), ("off", CaseFirst::Off)];
        choice(name, value, &choices)
    }

    fn name(self) -> &'static str {
        match self {
            CaseFirst::Upper => "upper",
            CaseFirst::Lower => "lower",
            CaseFirst::Off => "off",
        }
    }
}

impl Strength {
    fn read(value: Value<'_>) -> Result<Self> {
        if !value.is_number() {
            return Err(wrong_type("strength", value, "int"));
        }
        Ok(match value.as_integer() {
            Some(1) => Strength::Primary,
            Some(2) => Strength::Secondary,
            Some(3) => Strength::Tertiary,
            Some(4) => Strength::Quaternary,
            Some(5) => Strength::Identical,
            _ => {
                return Err(QueryError::bad_value(format!(
                    "collation: the field 'strength' must be an integer from 1 to 5, got {}",
                    shown(value)
                )));
            }
        })
    }
}

impl Spec {
    /// Reads the options and finds the rules; `None` for the locale `simple`.
    pub(super) fn parse(spec: &RawDocument) -> Result<Option<(Self, CollatorBorrowed<'static>)>> {
        let given = Given::read(spec)?;
        let locale = given.locale.ok_or_else(|| {
            QueryError::new(
                ErrorCode::Location40414,
                "BSON field 'collation.locale' is missing but a required field",
            )
        })?;
        if locale == "simple" {
            return match given.fields {
                1 => Ok(None),
                _ => Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    "collation: with the locale 'simple' no other field may be there",
                )),
            };
        }
        let (locale, rules) = match locales::find(locale) {
            Found::Rules(locale, rules) => (locale, rules),
            Found::WithoutRules => {
                return Err(QueryError::new(
                    ErrorCode::NotImplemented,
                    format!("collation: the rules of the locale '{locale}' are not available here"),
                ));
            }
            Found::Unknown(nearest) => {
                let hint = nearest.map(|name| format!(" Did you mean '{name}'?")).unwrap_or_default();
                return Err(QueryError::bad_value(format!(
                    "collation: the field 'locale' is invalid: '{locale}'.{hint}"
                )));
            }
        };
        let spec = given.complete(locale, rules)?;
        let collator = spec.collator(rules)?;
        Ok(Some((spec, collator)))
    }

    fn collator(&self, rules: &str) -> Result<CollatorBorrowed<'static>> {
        let rules = match (rules, self.backwards) {
            (rules, false) => rules,
            (ROOT, true) => ROOT_BACKWARDS,
            (_, true) => {
                return Err(QueryError::new(
                    ErrorCode::NotImplemented,
                    format!(
                        "collation: 'backwards' is not supported with the locale '{}': it is with those that have \
                         the order of the root collation, like 'fr' and 'en'",
                        self.locale
                    ),
                ));
            }
        };
        let mut options = CollatorOptions::default();
        options.strength = Some(match self.strength {
            Strength::Primary => IcuStrength::Primary,
            Strength::Secondary => IcuStrength::Secondary,
            Strength::Tertiary => IcuStrength::Tertiary,
            Strength::Quaternary => IcuStrength::Quaternary,
            Strength::Identical => IcuStrength::Identical,
        });
        options.case_level = Some(if self.case_level { CaseLevel::On } else { CaseLevel::Off });
        options.alternate_handling =
            Some(if self.shifted { AlternateHandling::Shifted } else { AlternateHandling::NonIgnorable });
        options.max_variable =
            Some(if self.only_spaces { MaxVariable::Space } else { MaxVariable::Punctuation });
        let mut preferences = preferences(rules)?;
        preferences.case_first = Some(match self.case_first {
            CaseFirst::Upper => CollationCaseFirst::Upper,
            CaseFirst::Lower => CollationCaseFirst::Lower,
            CaseFirst::Off => CollationCaseFirst::False,
        });
        preferences.numeric_ordering = Some(match self.numeric_ordering {
            true => CollationNumericOrdering::True,
            false => CollationNumericOrdering::False,
        });
        collator(preferences, options)
    }

    /// The options as `listIndexes` shows them.
    pub(super) fn document(&self) -> RawDocumentBuf {
        rawdoc! {
            "locale": self.locale,
            "caseLevel": self.case_level,
            "caseFirst": self.case_first.name(),
            "strength": self.strength as i32,
            "numericOrdering": self.numeric_ordering,
            "alternate": if self.shifted { "shifted" } else { "non-ignorable" },
            "maxVariable": if self.only_spaces { "space" } else { "punct" },
            "normalization": self.normalization,
            "backwards": self.backwards,
        }
    }
}

impl Given<'_> {
    /// The options with the locale's defaults for those that were not given.
    ///
    /// # Errors
    /// `BadValue` for options that have no effect together, as in MongoDB. A default that has none is left out.
    fn complete(self, locale: &'static str, rules: &str) -> Result<Spec> {
        let of_locale = collator(preferences(rules)?, CollatorOptions::default())?.resolved_options();
        let strength = self.strength.unwrap_or(Strength::Tertiary);
        let case_level = self.case_level.unwrap_or(false);
        let case_counts = case_level || strength >= Strength::Tertiary;
        let case_first = match (self.case_first, of_locale.case_first) {
            (Some(given), _) => given,
            (None, CollationCaseFirst::Upper) if case_counts => CaseFirst::Upper,
            (None, CollationCaseFirst::Lower) if case_counts => CaseFirst::Lower,
            (None, _) => CaseFirst::Off,
        };
        if case_first != CaseFirst::Off && !case_counts {
            return Err(QueryError::bad_value(
                "collation: 'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2",
            ));
        }
        let accents_count = strength > Strength::Primary;
        if self.backwards == Some(true) && !accents_count {
            return Err(QueryError::bad_value("collation: 'backwards' is invalid with a 'strength' of 1"));
        }
        Ok(Spec {
            locale,
            case_level,
            case_first,
            strength,
            numeric_ordering: self.numeric_ordering.unwrap_or(false),
            shifted: self.shifted.unwrap_or(of_locale.alternate_handling == AlternateHandling::Shifted),
            only_spaces: self.only_spaces.unwrap_or(false),
            normalization: self.normalization.unwrap_or(false),
            backwards: self.backwards.unwrap_or(locale == FRENCH_CANADA && accents_count),
        })
    }
}

fn preferences(rules: &str) -> Result<CollatorPreferences> {
    let locale: Locale = rules.parse().map_err(|e| unavailable(rules, &e))?;
    Ok((&locale).into())
}

fn collator(preferences: CollatorPreferences, options: CollatorOptions) -> Result<CollatorBorrowed<'static>> {
    CollatorBorrowed::try_new(preferences, options).map_err(|e| unavailable("", &e))
}

fn unavailable(rules: &str, error: &dyn std::fmt::Display) -> QueryError {
    QueryError::new(
        ErrorCode::InternalError,
        format!(
            "collation: the rules '{rules}' cannot be loaded: {error}: report this as a defect of TreeDB"
        ),
    )
}
