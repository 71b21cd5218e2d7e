//! Changes of the catalog that this backend hears of, for what it has cached.

use std::sync::OnceLock;

use pgrx::pg_sys;

/// Called with the relation that has changed, or `None` if any of them or any function, type or schema may have. It is
/// called at any time that the server looks into its catalog, so it must not look into it itself.
pub(crate) type Listener = fn(changed: Option<pg_sys::Oid>);

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Makes `listener` hear of changes for as long as the backend lives. There is one.
pub(crate) fn listen(listener: Listener) {
    if LISTENER.set(listener).is_err() {
        return;
    }
    let none = pg_sys::Datum::from(0_usize);
    // SAFETY: the callbacks live as long as the library, which is never unloaded.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), none);
        for catalog in [
            pg_sys::SysCacheIdentifier::PROCOID,
            pg_sys::SysCacheIdentifier::TYPEOID,
            pg_sys::SysCacheIdentifier::NAMESPACEOID,
        ] {
            pg_sys::CacheRegisterSyscacheCallback(catalog as i32, Some(catalog_changed), none);
        }
        // What privileges depend on beside those: roles, their members, and who owns the database.
        for catalog in [
            pg_sys::SysCacheIdentifier::AUTHOID,
            pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM,
            pg_sys::SysCacheIdentifier::DATABASEOID,
        ] {
            pg_sys::CacheRegisterSyscacheCallback(catalog as i32, Some(roles_changed), none);
        }
    }
}

fn tell(changed: Option<pg_sys::Oid>) {
    if let Some(listener) = LISTENER.get() {
        // SAFETY: the outermost Rust frame below the server's.
        unsafe { super::error_frame::guarded(|| listener(changed)) }
    }
}

unsafe extern "C-unwind" fn roles_changed(_: pg_sys::Datum, _catalog: i32, _hash: u32) {
    super::catalog::forget_allowed();
}

unsafe extern "C-unwind" fn relation_changed(_: pg_sys::Datum, relation: pg_sys::Oid) {
    super::catalog::forget_allowed();
    tell((relation != pg_sys::InvalidOid).then_some(relation));
}

unsafe extern "C-unwind" fn catalog_changed(_: pg_sys::Datum, _catalog: i32, _hash: u32) {
    super::catalog::forget_numbers();
    super::catalog::forget_allowed();
    tell(None);
}
