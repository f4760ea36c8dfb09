//! Which files are wanted: `--include` and `--exclude`.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of paths below the project.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is no pattern")]
pub struct BadPattern {
    pattern: String,
    source: globset::Error,
}

impl Selection {
    /// Everything that `include` names, or everything if it names nothing, without what `exclude`
    /// names. A pattern without a slash means a name anywhere; one that names a directory means all
    /// below it.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, BadPattern> {
        let include = if include.is_empty() { None } else { Some(set(include)?) };
        Ok(Self { include, exclude: set(exclude)? })
    }

    pub(crate) fn takes(&self, relative: &Path) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(relative))
            && !self.exclude.is_match(relative)
    }
}

fn set(patterns: &[String]) -> Result<GlobSet, BadPattern> {
    let mut set = GlobSetBuilder::new();
    let bad = |pattern: &str| {
        let pattern = pattern.to_owned();
        move |source| BadPattern { pattern, source }
    };
    for pattern in patterns {
        let plain = pattern.trim_end_matches('/');
        let anywhere = if plain.contains('/') {
            plain.trim_start_matches('/').to_owned()
        } else {
            format!("**/{plain}")
        };
        for glob in [anywhere.clone(), format!("{anywhere}/**")] {
            let glob = GlobBuilder::new(&glob).literal_separator(true).build();
            set.add(glob.map_err(bad(pattern))?);
        }
    }
    set.build().map_err(bad(""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Selection;

    #[test]
    fn patterns_name_files_directories_and_names_anywhere() {
        let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let check = |include: &[&str], exclude: &[&str], path: &str| {
            Selection::new(&words(include), &words(exclude)).unwrap().takes(Path::new(path))
        };
        assert!(check(&[], &[], "any/thing"));
        assert!(check(&["*.rs"], &[], "src/deep/a.rs"));
        assert!(!check(&["*.rs"], &[], "src/a.toml"));
        assert!(check(&["src/"], &[], "src/deep/a.toml"));
        assert!(!check(&["/src/*.rs"], &[], "src/deep/a.rs"));
        assert!(!check(&[], &["target"], "sub/target/x/y"));
        assert!(!check(&["*.rs"], &["src/gen.rs"], "src/gen.rs"));
        assert!(check(&[], &["src/gen.rs"], "lib/src/gen.rs"));
        Selection::new(&words(&["a{"]), &[]).unwrap_err();
    }
}
