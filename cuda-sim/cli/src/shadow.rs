//! The option `--shadow`: the checker beside a real driver. Finds that driver.

use super::{library, link_into};
use std::path::{Path, PathBuf};

/// Returns the path of the real driver. `path`: the one that the user named, if any.
pub fn real(path: Option<&str>) -> Result<PathBuf, String> {
    let own: Vec<PathBuf> = ["libcuda.so", "libcuda.so.1", "libcudasim_shadow.so"]
        .iter()
        .filter_map(|name| library(name).ok()?.canonicalize().ok())
        .chain(folder().ok().and_then(|folder| folder.join("libcuda.so.1").canonicalize().ok()))
        .collect();
    let named = std::env::var("CUDASIM_REAL").ok().filter(|named| !named.is_empty());
    let path = path.or(named.as_deref());
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let places = match path {
        Some(path) => vec![PathBuf::from(path), Path::new(path).join("libcuda.so.1")],
        None => std::env::split_paths(&search)
            .map(|folder| folder.join("libcuda.so.1"))
            .chain(cudasim_core::config::REAL_DRIVERS.iter().map(PathBuf::from))
            .filter(|path| path.canonicalize().is_ok_and(|path| !own.contains(&path)))
            .collect(),
    };
    let found = places.into_iter().find(|path| path.is_file());
    let found = found.and_then(|path| std::path::absolute(path).ok());
    found.ok_or_else(|| match path {
        Some(path) => format!("there is no driver at {path}"),
        None => "found no real driver; name it: --shadow=/path/of/libcuda.so.1".to_owned(),
    })
}

/// Returns the folder in which the checker has the driver's name.
pub fn folder() -> Result<PathBuf, String> {
    let parent = |path: &Path| path.parent().unwrap_or(Path::new(".")).to_owned();
    if let Ok(installed) = library("shadow/libcuda.so.1") {
        return Ok(parent(&installed));
    }
    let built = library("libcudasim_shadow.so")?;
    let folder = parent(&built).join("cuda-sim-shadow");
    link_into(&folder, &built, &["libcuda.so.1"])?;
    Ok(folder)
}
