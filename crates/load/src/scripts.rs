//! Scripts in Lua that a plan names.

use record::load::ScriptFile;

use crate::error::LoadError;
#[cfg(feature = "lua")]
use crate::lua::commands::{Declarations, declarations, declarations_with};
#[cfg(feature = "lua")]
use crate::lua::program::Modules;
use crate::workload::values::text_of;

/// Length limit of a script.
const SCRIPT_BYTES_MAX: u64 = 8 << 20;

/// A script in Lua with its modules and options.
#[derive(Debug)]
pub struct LuaScript {
    files: Vec<ScriptFile>,
    #[cfg(feature = "lua")]
    declarations: Declarations,
}

impl LuaScript {
    /// Reads a script, and runs its body without a server to find its options and modules.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not Lua, or its body fails; or this build runs no scripts in Lua.
    #[cfg(feature = "lua")]
    pub fn read(path: &str) -> Result<Self, LoadError> {
        Self::of(file(path, 1)?)
    }

    /// Variant of [`Self::read`] for a script that was read already. Its modules are read from disk.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    #[cfg(feature = "lua")]
    pub fn of(script: ScriptFile) -> Result<Self, LoadError> {
        let declarations = declarations(&script.name, &script.text, Some("run"))?;
        let modules = declarations.modules.iter().map(|module| file(module, 0));
        let files = std::iter::once(Ok(script)).chain(modules).collect::<Result<_, _>>()?;
        Ok(Self { files, declarations })
    }

    /// Variant of [`Self::of`] with the texts of the modules: no other one is loaded.
    ///
    /// - `files`: the script, and then its modules.
    /// - `otherwise`: message for another module.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], or the script loads another module.
    ///
    /// # Panics
    ///
    /// `files` is empty.
    #[cfg(feature = "lua")]
    pub fn known(files: &[ScriptFile], otherwise: &'static str) -> Result<Self, LoadError> {
        let [script, modules @ ..] = files else { panic!("the script is the first file") };
        let known = Modules::of(files, otherwise);
        let declarations = declarations_with(&script.name, &script.text, Some("run"), known)?;
        let loaded = declarations.modules.iter().filter_map(|path| modules.iter().find(|m| m.name == *path));
        Ok(Self { files: std::iter::once(script).chain(loaded).cloned().collect(), declarations })
    }

    /// Without Lua, no script is read.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(feature = "lua"))]
    pub fn read(path: &str) -> Result<Self, LoadError> {
        Self::of(file(path, 1)?)
    }

    /// Without Lua, no script is read.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(feature = "lua"))]
    pub fn of(ScriptFile { name, .. }: ScriptFile) -> Result<Self, LoadError> {
        let text = format!("{name}: {}", crate::driver::sql::without_lua().text);
        Err(LoadError::ScriptText { text })
    }

    /// Without Lua, no script is read.
    ///
    /// # Errors
    ///
    /// Always.
    ///
    /// # Panics
    ///
    /// `files` is empty.
    #[cfg(not(feature = "lua"))]
    pub fn known(files: &[ScriptFile], _: &'static str) -> Result<Self, LoadError> {
        Self::of(files.first().expect("the script is the first file").clone())
    }

    /// Checks that the script has these options, and that their values have the right type.
    ///
    /// # Errors
    ///
    /// The first option that is wrong.
    pub fn check(&self, given: &[(String, String)]) -> Result<(), LoadError> {
        #[cfg(feature = "lua")]
        for (name, value) in given {
            let Declarations { options, usual, .. } = &self.declarations;
            let option = options.iter().chain(usual).find(|option| option.is_named(name));
            let missing = || format!("{} has no option `{name}`", self.files[0].name);
            let checked = option.ok_or_else(missing).and_then(|option| option.check(value));
            checked.map_err(|text| LoadError::ScriptText { text })?;
        }
        #[cfg(not(feature = "lua"))]
        let _ = given;
        Ok(())
    }

    /// The script, and then its modules.
    pub fn into_files(self) -> Vec<ScriptFile> {
        self.files
    }
}

fn file(path: &str, weight: u32) -> Result<ScriptFile, LoadError> {
    let text = text_of(path, SCRIPT_BYTES_MAX).map_err(|text| LoadError::ScriptText { text })?;
    Ok(ScriptFile { name: path.to_owned(), weight, text })
}
