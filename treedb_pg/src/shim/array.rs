//! Arrays of SQL.

use pgrx::pg_sys;

/// The elements of an array, `None` for NULLs.
pub(crate) fn elements(datum: pg_sys::Datum) -> Vec<Option<pg_sys::Datum>> {
    // SAFETY: the caller's datum is an array; the server fills the three out parameters.
    unsafe {
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let (mut len, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign((*array).elemtype, &raw mut len, &raw mut by_value, &raw mut align);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array,
            (*array).elemtype,
            i32::from(len),
            by_value,
            align,
            &raw mut values,
            &raw mut nulls,
            &raw mut count,
        );
        (0..usize::try_from(count).unwrap_or(0)).map(|i| (!*nulls.add(i)).then(|| *values.add(i))).collect()
    }
}
