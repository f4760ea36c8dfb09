//! The fold, tried on every capture and on journals, dialects and lengths that no capture has.

// One module, so that its helpers count as tests and may unwrap.
#[cfg(test)]
mod tests {
    mod dialects;
    mod documents;
    mod journal;
    mod pages;
    mod properties;
    mod record;
}
