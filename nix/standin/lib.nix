# As much of nixpkgs' lib as the files beside use, with the same meaning: functions,
# option types, and an evalModules that knows nested options, definitions under mkIf,
# mkMerge and priorities, and that refuses what no option declares.
let
  inherit (builtins)
    all
    any
    attrNames
    attrValues
    concatLists
    concatMap
    concatStringsSep
    elem
    filter
    foldl'
    head
    isAttrs
    isBool
    isFunction
    isList
    isPath
    isString
    length
    listToAttrs
    map
    mapAttrs
    stringLength
    substring
    toJSON
    ;

  genAttrs = names: f: listToAttrs (map (name: { inherit name; value = f name; }) names);
  optional = cond: x: if cond then [ x ] else [ ];
  unique = foldl' (seen: x: if elem x seen then seen else seen ++ [ x ]) [ ];
  hasSuffix =
    end: s:
    stringLength s >= stringLength end
    && substring (stringLength s - stringLength end) (stringLength end) s == end;
  isDerivation = x: isAttrs x && x.type or null == "derivation";
  toPath = x: isPath x || (isString x && substring 0 1 x == "/") || isDerivation x;

  mkIf = condition: content: { _type = "if"; inherit condition content; };
  mkMerge = contents: { _type = "merge"; inherit contents; };
  mkOverride = priority: content: { _type = "override"; inherit priority content; };
  defaultPriority = 100;

  mkOption = o: { _type = "option"; } // o;
  isOption = o: isAttrs o && o._type or null == "option";

  # A type is what it takes, and how definitions of one value come together.
  one = where: values: if length (unique values) == 1 then head values else throw "${where}: defined ${toString (length values)} times";
  scalar = name: check: { inherit name check; merge = one; };
  types = rec {
    bool = scalar "bool" isBool;
    str = scalar "str" isString;
    lines = scalar "lines" isString // { merge = _: concatStringsSep "\n"; };
    int = scalar "int" builtins.isInt;
    path = scalar "path" toPath;
    package = scalar "package" isDerivation;
    anything = scalar "anything" (_: true);
    listOf = t: {
      name = "listOf ${t.name}";
      check = x: isList x && all t.check x;
      merge = _: concatLists;
    };
    attrsOf = t: {
      name = "attrsOf ${t.name}";
      check = isAttrs;
      merge =
        where: values:
        genAttrs (unique (concatMap attrNames (map strip values))) (
          name: mergeDefinitions "${where}.${name}" t (concatMap (at name) values)
        );
    };
    nullOr = t: {
      name = "nullOr ${t.name}";
      check = x: x == null || t.check x;
      merge = where: values: if all (x: x == null) values then null else t.merge where values;
    };
    either = a: b: {
      name = "${a.name} or ${b.name}";
      check = x: a.check x || b.check x;
      merge = where: values: if all a.check values then a.merge where values else b.merge where values;
    };
    submodule = module: {
      name = "submodule";
      check = x: isAttrs x || isFunction x;
      merge = where: values: (evalModules { inherit where; modules = [ module ] ++ map (config: { inherit config; }) values; }).config;
    };
  };

  # strip leaves the attributes of a definition, whatever it is wrapped in.
  strip =
    x:
    if x._type or null == "if" || x._type or null == "override" then
      strip x.content
    else if x._type or null == "merge" then
      foldl' (a: b: a // b) { } (map strip x.contents)
    else
      x;

  # at returns the definitions that a definition has of one of its attributes. What is
  # behind mkIf is not asked for its condition before the attribute is there.
  at =
    name: x:
    if x._type or null == "if" then
      map (mkIf x.condition) (at name x.content)
    else if x._type or null == "override" then
      map (mkOverride x.priority) (at name x.content)
    else if x._type or null == "merge" then
      concatMap (at name) x.contents
    else
      optional (x ? ${name}) x.${name};

  # discharge returns the values that are left of a definition, with their priorities.
  discharge =
    priority: x:
    if x._type or null == "if" then
      if x.condition then discharge priority x.content else [ ]
    else if x._type or null == "merge" then
      concatMap (discharge priority) x.contents
    else if x._type or null == "override" then
      discharge x.priority x.content
    else
      [ { inherit priority; value = x; } ];

  mergeDefinitions =
    where: type: definitions:
    let
      values = concatMap (discharge defaultPriority) definitions;
      least = foldl' (a: b: if b.priority < a then b.priority else a) 9999 values;
      won = map (v: v.value) (filter (v: v.priority == least) values);
    in
    if won == [ ] then
      throw "${where}: no value"
    else if !all type.check won then
      throw "${where}: not of type ${type.name}: ${toJSON (filter (v: !type.check v) won)}"
    else
      type.merge where won;

  evalModules =
    {
      modules,
      specialArgs ? { },
      where ? "config",
    }:
    let
      load =
        module:
        let
          m = if isFunction module then module (specialArgs // { inherit config; lib = self; }) else module;
          isShort = !(m ? options || m ? config);
        in
        concatMap load (m.imports or [ ])
        ++ [
          {
            options = m.options or { };
            config = if isShort then removeAttrs m [ "imports" ] else m.config or { };
          }
        ];
      loaded = concatMap load modules;
      join = a: b: a // mapAttrs (n: v: if a ? ${n} && !isOption v then join a.${n} v else v) b;
      options = foldl' join { } (map (m: m.options) loaded);
      eval =
        path: options: definitions:
        if isOption options then
          mergeDefinitions path options.type (
            definitions ++ optional (options ? default) (mkOverride 1500 options.default)
          )
        else
          mapAttrs (name: o: eval "${path}.${name}" o (concatMap (at name) definitions)) options;
      # unknown returns what is defined and no option.
      unknown =
        path: options: definition:
        if isOption options then
          [ ]
        else
          concatMap (
            name:
            if options ? ${name} then concatMap (unknown "${path}.${name}" options.${name}) (at name definition) else [ "${path}.${name}" ]
          ) (attrNames (strip definition));
      strangers = concatMap (m: unknown where options m.config) loaded;
      config = eval where options (map (m: m.config) loaded);
    in
    {
      inherit options;
      config = if strangers == [ ] then config else throw "no such option: ${concatStringsSep ", " strangers}";
    };

  self = {
    inherit
      all
      any
      attrNames
      attrValues
      concatLists
      concatMap
      concatStringsSep
      elem
      evalModules
      filter
      foldl'
      genAttrs
      hasSuffix
      isDerivation
      mapAttrs
      mkIf
      mkMerge
      mkOption
      mkOverride
      optional
      types
      unique
      ;
    mkDefault = mkOverride 1000;
    mkForce = mkOverride 50;
    mkEnableOption = what: mkOption { type = types.bool; default = false; description = "Whether to enable ${what}."; };
    literalExpression = text: text;
    literalMD = text: text;
    optionalString = cond: s: if cond then s else "";
    optionalAttrs = cond: x: if cond then x else { };
    removeSuffix = end: s: if hasSuffix end s then substring 0 (stringLength s - stringLength end) s else s;
    cleanSource = path: path;
    licenses.asl20 = "Apache-2.0";
    platforms.linux = [ "x86_64-linux" "aarch64-linux" ];
  };
in
self
