//! Rust values as bytes of keys and of values.
//!
//! Keys compare as their bytes do: unsigned integers are big-endian, signed ones too with the sign bit inverted. A
//! string or byte string that is a whole key is stored unchanged. Inside a tuple it is escaped: every byte 00 is followed
//! by ff, and it ends with 00 00, so that a string sorts before all longer ones that start with it.
//!
//! Values are stored plain: integers little-endian, strings and bytes as they are.

/// A buffer for the bytes of a key: on the stack, unless there are many.
#[derive(Debug)]
pub struct KeyBuf {
    short: [u8; KeyBuf::SHORT],
    len: usize,
    long: Vec<u8>,
}

impl KeyBuf {
    const SHORT: usize = 96;

    /// No bytes yet.
    pub fn new() -> KeyBuf {
        KeyBuf { short: [0; KeyBuf::SHORT], len: 0, long: Vec::new() }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.long.is_empty() {
            if let Some(room) = self.short.get_mut(self.len..end) {
                room.copy_from_slice(bytes);
                self.len = end;
                return;
            }
            self.long.extend_from_slice(self.short.get(..self.len).unwrap_or_default());
        }
        self.long.extend_from_slice(bytes);
        self.len = end;
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        if self.long.is_empty() { self.short.get(..self.len).unwrap_or_default() } else { &self.long }
    }
}

impl Default for KeyBuf {
    fn default() -> KeyBuf {
        KeyBuf::new()
    }
}

/// What can be the key of a [`TypedTable`](super::TypedTable): integers, `String`, `Vec<u8>`, arrays of bytes, and
/// tuples of up to four of these. `a < b` must be the order of their bytes.
pub trait TypedKey: Sized {
    /// How a key is handed in: itself, or a borrowed form of it.
    type Ref<'a>: Copy;

    /// Appends the key as a part of a tuple, in a self-delimiting form.
    fn write(key: Self::Ref<'_>, out: &mut KeyBuf);

    /// Takes a part of a tuple off the front of `bytes`; `None` if there is none.
    fn read(bytes: &mut &[u8]) -> Option<Self>;

    /// Calls `call` with the bytes of the key by itself.
    fn with<R>(key: Self::Ref<'_>, call: impl FnOnce(&[u8]) -> R) -> R {
        let mut out = KeyBuf::new();
        Self::write(key, &mut out);
        call(out.bytes())
    }

    /// Reads a key by itself; `None` if the bytes are not one.
    fn whole(mut bytes: &[u8]) -> Option<Self> {
        let key = Self::read(&mut bytes)?;
        bytes.is_empty().then_some(key)
    }
}

/// What can be the value of a [`TypedTable`](super::TypedTable): integers, `String`, `Vec<u8>`, arrays of bytes, `()`,
/// and whatever else implements this.
pub trait TypedValue {
    /// How a value is handed in and out: itself, or a borrowed form of it.
    type Ref<'a>;

    /// Calls `call` with the value's bytes.
    fn with<R>(value: Self::Ref<'_>, call: impl FnOnce(&[u8]) -> R) -> R;

    /// Reads a value; `None` if the bytes are not one.
    fn read(bytes: &[u8]) -> Option<Self::Ref<'_>>;
}

macro_rules! integers {
    ($($int:ty, $flip:expr;)*) => {$(
        impl TypedKey for $int {
            type Ref<'a> = $int;

            fn write(key: $int, out: &mut KeyBuf) {
                out.push(&(key ^ $flip).to_be_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Option<$int> {
                let (head, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$int>::from_be_bytes(*head) ^ $flip)
            }

            fn with<R>(key: $int, call: impl FnOnce(&[u8]) -> R) -> R {
                call(&(key ^ $flip).to_be_bytes())
            }
        }

        impl TypedValue for $int {
            type Ref<'a> = $int;

            fn with<R>(value: $int, call: impl FnOnce(&[u8]) -> R) -> R {
                call(&value.to_le_bytes())
            }

            fn read(bytes: &[u8]) -> Option<$int> {
                Some(<$int>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

integers! {
    u8, 0; u16, 0; u32, 0; u64, 0; u128, 0;
    i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN;
}

/// Appends bytes in a self-delimiting form.
fn write_part(bytes: &[u8], out: &mut KeyBuf) {
    for (i, piece) in bytes.split(|&byte| byte == 0).enumerate() {
        if i > 0 {
            out.push(&[0, 0xff]);
        }
        out.push(piece);
    }
    out.push(&[0, 0]);
}

fn read_part(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut part = Vec::new();
    loop {
        let zero = bytes.iter().position(|&byte| byte == 0)?;
        let (piece, rest) = bytes.split_at_checked(zero)?;
        part.extend_from_slice(piece);
        let (&[_, mark], rest) = rest.split_first_chunk()?;
        *bytes = rest;
        match mark {
            0 => return Some(part),
            0xff => part.push(0),
            _ => return None,
        }
    }
}

impl TypedKey for Vec<u8> {
    type Ref<'a> = &'a [u8];

    fn write(key: &[u8], out: &mut KeyBuf) {
        write_part(key, out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Vec<u8>> {
        read_part(bytes)
    }

    fn with<R>(key: &[u8], call: impl FnOnce(&[u8]) -> R) -> R {
        call(key)
    }

    fn whole(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl TypedKey for String {
    type Ref<'a> = &'a str;

    fn write(key: &str, out: &mut KeyBuf) {
        write_part(key.as_bytes(), out);
    }

    fn read(bytes: &mut &[u8]) -> Option<String> {
        String::from_utf8(read_part(bytes)?).ok()
    }

    fn with<R>(key: &str, call: impl FnOnce(&[u8]) -> R) -> R {
        call(key.as_bytes())
    }

    fn whole(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl<const N: usize> TypedKey for [u8; N] {
    type Ref<'a> = &'a [u8; N];

    fn write(key: &[u8; N], out: &mut KeyBuf) {
        out.push(key);
    }

    fn read(bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (head, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*head)
    }

    fn with<R>(key: &[u8; N], call: impl FnOnce(&[u8]) -> R) -> R {
        call(key)
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),*);)*) => {$(
        impl<$($part: TypedKey),*> TypedKey for ($($part,)*) {
            type Ref<'a> = ($($part::Ref<'a>,)*);

            fn write(key: Self::Ref<'_>, out: &mut KeyBuf) {
                $($part::write(key.$at, out);)*
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::read(bytes)?,)*))
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
}

impl TypedValue for Vec<u8> {
    type Ref<'a> = &'a [u8];

    fn with<R>(value: &[u8], call: impl FnOnce(&[u8]) -> R) -> R {
        call(value)
    }

    fn read(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }
}

impl TypedValue for String {
    type Ref<'a> = &'a str;

    fn with<R>(value: &str, call: impl FnOnce(&[u8]) -> R) -> R {
        call(value.as_bytes())
    }

    fn read(bytes: &[u8]) -> Option<&str> {
        std::str::from_utf8(bytes).ok()
    }
}

impl<const N: usize> TypedValue for [u8; N] {
    type Ref<'a> = &'a [u8; N];

    fn with<R>(value: &[u8; N], call: impl FnOnce(&[u8]) -> R) -> R {
        call(value)
    }

    fn read(bytes: &[u8]) -> Option<&[u8; N]> {
        bytes.try_into().ok()
    }
}

impl TypedValue for () {
    type Ref<'a> = ();

    fn with<R>((): (), call: impl FnOnce(&[u8]) -> R) -> R {
        call(&[])
    }

    fn read(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<K: TypedKey>(key: K::Ref<'_>) -> Vec<u8> {
        K::with(key, <[u8]>::to_vec)
    }

    /// Every pair compares as its bytes do, and every key comes back.
    fn orders<'a, K: TypedKey + Ord + std::fmt::Debug>(keys: &'a [K], form: impl Fn(&'a K) -> K::Ref<'a>) {
        for a in keys {
            let of_a = bytes_of::<K>(form(a));
            assert_eq!(K::whole(&of_a).as_ref(), Some(a));
            for b in keys {
                assert_eq!(of_a.cmp(&bytes_of::<K>(form(b))), a.cmp(b), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn integers_order_as_their_bytes() {
        orders(&[0u8, 1, 127, 128, 255], |n| *n);
        orders(&[0u64, 1, 255, 256, 1 << 40, u64::MAX], |n| *n);
        orders(&[i64::MIN, -(1 << 40), -256, -1, 0, 1, 255, i64::MAX], |n| *n);
        orders(&[i8::MIN, -1, 0, 1, i8::MAX], |n| *n);
        orders(&[i128::MIN, -1, 0, 1, i128::MAX], |n| *n);
    }

    #[test]
    fn strings_and_bytes_order_as_they_are_alone_and_in_tuples() {
        let strings: Vec<String> =
            ["", "\0", "\0\0", "\0\u{1}", "a", "a\0", "a\0b", "a\u{1}", "ab", "b", "\u{e4}", "\u{10ffff}"]
                .map(str::to_owned)
                .to_vec();
        orders(&strings, |text| text.as_str());
        let rows: Vec<Vec<u8>> =
            [&b""[..], b"\0", b"\0\0", b"\0\xff", b"\x01", b"\xff", b"\xff\0", b"\xff\xff"]
                .map(<[u8]>::to_vec)
                .to_vec();
        orders(&rows, |row| row.as_slice());
        let mut pairs = Vec::new();
        for text in &strings {
            for n in [0u16, 1, 0x00ff, 0xff00, 0xffff] {
                pairs.push((text.clone(), n));
            }
        }
        orders(&pairs, |(text, n)| (text.as_str(), *n));
        let mut threes = Vec::new();
        for a in &rows {
            for b in &rows {
                threes.push((a.clone(), b.clone(), *b"ab"));
                threes.push((a.clone(), b.clone(), *b"\0\0"));
            }
        }
        orders(&threes, |(a, b, c)| (a.as_slice(), b.as_slice(), c));
    }

    #[test]
    fn a_long_key_leaves_the_stack_and_is_the_same() {
        for len in [90, 94, 95, 96, 97, 200] {
            let text = "x".repeat(len);
            let bytes = bytes_of::<(String, u32)>((&text, 7));
            assert_eq!(bytes.len(), len + 2 + 4);
            assert_eq!(<(String, u32)>::whole(&bytes), Some((text, 7)));
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        assert_eq!(u32::whole(b"123"), None);
        assert_eq!(u32::whole(b"12345"), None);
        assert_eq!(String::whole(b"\xff"), None);
        for bytes in [&b"a"[..], b"a\0", b"a\0\x01", b"a\0\0", b"a\0\0xyz", b"a\0\0vwxyz", b"\xff\0\0wxyz"] {
            assert_eq!(<(String, u32)>::whole(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn encoded_values_decode_to_the_same_values() {
        <u64 as TypedValue>::with(7, |bytes| assert_eq!(<u64 as TypedValue>::read(bytes), Some(7)));
        <i16 as TypedValue>::with(-7, |bytes| assert_eq!(<i16 as TypedValue>::read(bytes), Some(-7)));
        <() as TypedValue>::with((), |bytes| assert_eq!(<() as TypedValue>::read(bytes), Some(())));
        assert_eq!(<u64 as TypedValue>::read(b"short"), None);
        assert_eq!(<String as TypedValue>::read(b"\xff"), None);
        assert_eq!(<[u8; 2] as TypedValue>::read(b"abc"), None);
    }
}
