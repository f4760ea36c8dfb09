//! Which brackets are open, one bit each.
//!
//! Skipping a value must not recurse (a line may nest 100,000 deep) and must know whether `]` or
//! `}` closes next. The first 64 levels cost no allocation; deeper ones a bit each.

/// A stack of open brackets.
#[derive(Default)]
pub(crate) struct Nesting {
    /// The innermost brackets, the newest in the lowest bit; 1 is an object.
    near: u64,
    /// How many bits of `near` are in use.
    count: u32,
    /// Full words of outer brackets.
    far: Vec<u64>,
}

impl Nesting {
    #[inline]
    pub(crate) fn open(&mut self, object: bool) {
        if self.count == u64::BITS {
            self.far.push(self.near);
            self.count = 0;
        }
        self.near = (self.near << 1) | u64::from(object);
        self.count += 1;
    }

    /// Closes the innermost bracket; false where it is of the other sort or none is open.
    #[inline]
    pub(crate) fn close(&mut self, object: bool) -> bool {
        if self.count == 0 {
            let Some(word) = self.far.pop() else { return false };
            self.near = word;
            self.count = u64::BITS;
        }
        let same = (self.near & 1 == 1) == object;
        self.near >>= 1;
        self.count -= 1;
        same
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.far.is_empty()
    }

    /// Whether the innermost open bracket is an object's.
    #[inline]
    pub(crate) fn in_object(&self) -> bool {
        if self.count == 0 {
            self.far.last().is_some_and(|word| word & 1 == 1)
        } else {
            self.near & 1 == 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Nesting;

    #[test]
    fn brackets_close_in_the_order_they_opened_however_deep() {
        let mut nesting = Nesting::default();
        let sorts: Vec<bool> = (0..1000).map(|n| n % 3 == 0).collect();
        for &object in &sorts {
            nesting.open(object);
            assert_eq!(nesting.in_object(), object);
        }
        for &object in sorts.iter().rev() {
            assert_eq!(nesting.in_object(), object);
            assert!(nesting.close(object));
        }
        assert!(nesting.is_empty());
        assert!(!nesting.close(true));
    }
}
