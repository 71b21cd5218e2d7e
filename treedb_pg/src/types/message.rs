//! Binary input: what a client sent for one value.

use pgrx::pg_sys;

/// The bytes of the message that are left, all taken.
pub(super) fn rest<'a>(message: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: a receive function is passed a buffer, whose cursor lies within its length.
    unsafe {
        let buffer = message.cast_mut_ptr::<pg_sys::StringInfoData>();
        let left = (*buffer).len - (*buffer).cursor;
        let bytes = pg_sys::pq_getmsgbytes(buffer, left);
        std::slice::from_raw_parts(bytes.cast::<u8>(), usize::try_from(left).unwrap_or(0))
    }
}
