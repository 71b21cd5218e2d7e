//! Keys that are compared bytewise.

/// The least byte string above every string that starts with `prefix`; `None` if there is none (all bytes are 0xFF).
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut next = prefix.get(..=keep)?.to_vec();
    *next.last_mut()? += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_prefix_comes_the_next_string_that_does_not_start_with_it() {
        assert_eq!(after_prefix(&[1, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[0xff, 0xff]), None);
        assert_eq!(after_prefix(&[]), None);
    }
}
